package keyfile_test

import (
	"bytes"
	"crypto/rand"
	"strings"
	"testing"

	"github.com/libp2p/go-libp2p/core/crypto"

	"allium/internal/keyfile"
)

// TestEveryChange: no changed or cut text is a key, but for blanks around it.
func TestEveryChange(t *testing.T) {
	t.Parallel()
	key, _, err := crypto.GenerateEd25519Key(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	text, err := keyfile.Encode(key)
	if err != nil {
		t.Fatal(err)
	}
	got, err := keyfile.Decode(append([]byte(" \n"), text...))
	if err != nil || !got.Equals(key) {
		t.Fatalf("%v, %v", got, err)
	}
	for i := range text[:len(text)-1] {
		if _, err := keyfile.Decode(text[:i]); err == nil {
			t.Errorf("cut after %d bytes", i)
		}
		changed := bytes.Clone(text)
		changed[i] ^= 1
		if got, err := keyfile.Decode(changed); err == nil {
			t.Errorf("byte %d changed: %v", i, got)
		}
	}
	rsa, _, err := crypto.GenerateRSAKeyPair(2048, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	other, err := keyfile.Encode(rsa)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{string(other), strings.Repeat("A", keyfile.MaxBytes+1)} {
		if _, err := keyfile.Decode([]byte(text)); err == nil || strings.Contains(err.Error(), "AAAA") {
			t.Errorf("%.20q: %v", text, err)
		}
	}
}
