package p2p

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/libp2p/go-libp2p/core/crypto"

	"allium/internal/keyfile"
	"allium/protocols/status"
)

func TestKeyIsCreatedOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "home", "key")
	first, err := LoadOrCreateKey(path)
	if err != nil {
		t.Fatal(err)
	}
	again, err := LoadOrCreateKey(path)
	if err != nil {
		t.Fatal(err)
	}
	if !first.Equals(again) {
		t.Error("the second load gives another key")
	}
	for name, want := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %04o, want %04o", name, got, want)
		}
	}
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 1 {
		t.Errorf("%d files are left, want the key alone", len(left))
	}
}

func TestKeyCreatedByMany(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	keys := make([]crypto.PrivKey, 16)
	errs := make([]error, len(keys))
	var wg sync.WaitGroup
	for i := range keys {
		wg.Go(func() { keys[i], errs[i] = LoadOrCreateKey(path) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	for _, k := range keys {
		if !k.Equals(keys[0]) {
			t.Fatal("two callers got different keys")
		}
	}
}

// TestKeyDamage flips every bit of a key's file, replaces every byte, and cuts
// it anywhere: each is refused, naming the file and the way out, or gives the
// same key.
func TestKeyDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	key, err := LoadOrCreateKey(path)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	accepted := 0
	try := func(what string, p []byte) {
		t.Helper()
		if err := os.WriteFile(path, p, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := LoadOrCreateKey(path)
		switch {
		case err == nil && !got.Equals(key):
			t.Errorf("%s gives another key", what)
		case err == nil:
			accepted++
		case status.Of(err) != status.Corrupt || !strings.Contains(err.Error(), path) ||
			!strings.Contains(err.Error(), "restore it from a backup"):
			t.Errorf("%s: %v", what, err)
		}
		if now, _ := os.ReadFile(path); !bytes.Equal(now, p) {
			t.Errorf("%s: the file was changed", what)
		}
	}
	for at := range whole {
		for _, other := range []byte{0, '\n', ' ', '=', 'A', whole[at] + 1} {
			p := bytes.Clone(whole)
			p[at] = other
			try(fmt.Sprintf("byte %d as %q", at, other), p)
		}
		for bit := range 8 {
			p := bytes.Clone(whole)
			p[at] ^= 1 << bit
			try(fmt.Sprintf("bit %d of byte %d", bit, at), p)
		}
		try(fmt.Sprintf("cut after %d bytes", at), whole[:at])
	}
	if accepted > 2*len(whole) { // the byte that it was, and white space at the end
		t.Errorf("%d changes were taken", accepted)
	}
}

func TestKeyRefusals(t *testing.T) {
	rsa, _, err := crypto.GenerateRSAKeyPair(2048, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rsaPB, err := crypto.MarshalPrivateKey(rsa)
	if err != nil {
		t.Fatal(err)
	}
	good := filepath.Join(t.TempDir(), "good")
	if _, err := LoadOrCreateKey(good); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, content string
		mode          os.FileMode
		want          status.Outcome
		says          string
	}{
		{"group readable", string(raw), 0o640, status.Forbidden, "chmod 600"},
		{"world readable", string(raw), 0o604, status.Forbidden, "chmod 600"},
		{"empty", "", 0o600, status.Corrupt, "empty"},
		{"not base64", "hello, world\n", 0o600, status.Corrupt, "base64"},
		{"truncated", string(raw[:40]), 0o600, status.Corrupt, "private key"},
		{"another type", base64.StdEncoding.EncodeToString(rsaPB), 0o600, status.Corrupt, "RSA"},
		{"huge", strings.Repeat("A", keyfile.MaxBytes+1), 0o600, status.Corrupt, "bytes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "key")
			if err := os.WriteFile(path, []byte(tc.content), tc.mode); err != nil {
				t.Fatal(err)
			}
			_, err := LoadOrCreateKey(path)
			if status.Of(err) != tc.want {
				t.Fatalf("got %v (%s), want %s", err, status.Of(err), tc.want)
			}
			if !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%q names neither the file nor %q", err, tc.says)
			}
			if now, _ := os.ReadFile(path); string(now) != tc.content {
				t.Error("the file was changed")
			}
		})
	}
	t.Run("directory", func(t *testing.T) {
		if _, err := LoadOrCreateKey(t.TempDir()); status.Of(err) != status.Corrupt {
			t.Errorf("got %v", err)
		}
	})
}
