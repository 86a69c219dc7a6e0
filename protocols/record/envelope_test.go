package record_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"testing"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/record"
)

func newKey(t testing.TB) crypto.PrivKey {
	t.Helper()
	key, _, err := crypto.GenerateEd25519Key(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// TestKinds: what was signed as one kind is none of another.
func TestKinds(t *testing.T) {
	key, kind := newKey(t), record.KindOf("thing")
	raw, err := kind.Seal(key, []byte("payload"))
	if err != nil {
		t.Fatal(err)
	}
	payload, signer, err := kind.Open(raw)
	if err != nil || string(payload) != "payload" || !signer.Equals(key.GetPublic()) {
		t.Fatalf("%q by %v, %v", payload, signer, err)
	}
	forged := bytes.Clone(raw)
	forged[len(forged)-1] ^= 1 // in the signature, the last field
	for name, tc := range map[string]struct {
		kind      record.Kind
		raw       []byte
		want      error
		peekWorks bool
	}{
		"another kind":  {record.KindOf("other"), raw, record.ErrType, false},
		"a peer record": {record.KindLike(&peer.PeerRecord{}), raw, record.ErrType, false},
		"forged":        {kind, forged, record.ErrSignature, true},
		"cut":           {kind, raw[:len(raw)-1], record.ErrUnsigned, false},
		"nothing":       {kind, nil, record.ErrUnsigned, false},
		"bare payload":  {kind, []byte("payload"), record.ErrUnsigned, false},
	} {
		if _, _, err := tc.kind.Open(tc.raw); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v", name, err)
		}
		if _, _, err := tc.kind.Peek(tc.raw); tc.peekWorks != (err == nil) || err != nil && !errors.Is(err, tc.want) {
			t.Errorf("%s: peek: %v", name, err)
		}
	}
}

// FuzzOpen: nothing but what was signed is opened, and the reason is typed.
func FuzzOpen(f *testing.F) {
	key, _, err := crypto.GenerateEd25519Key(bytes.NewReader(bytes.Repeat([]byte{7}, 32)))
	if err != nil {
		f.Fatal(err)
	}
	kind := record.KindOf("thing")
	raw, err := kind.Seal(key, []byte("payload"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add(raw[:len(raw)-1])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, p []byte) {
		_, peekErr := func() ([]byte, error) { b, _, err := kind.Peek(p); return b, err }()
		payload, signer, err := kind.Open(p)
		switch {
		case err == nil && peekErr != nil:
			t.Errorf("opened what cannot be peeked into: %v", peekErr)
		case err == nil && signer.Equals(key.GetPublic()) && string(payload) != "payload":
			t.Errorf("a forgery: %q", payload)
		case err != nil && !errors.Is(err, record.ErrUnsigned) && !errors.Is(err, record.ErrType) && !errors.Is(
			err, record.ErrSignature,
		):
			t.Errorf("untyped: %v", err)
		}
	})
}
