package envelope_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"testing"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/envelope"
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
	key, kind := newKey(t), envelope.Of("thing")
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
		kind      envelope.Kind
		raw       []byte
		want      error
		peekWorks bool
	}{
		"another kind":  {envelope.Of("other"), raw, envelope.ErrType, false},
		"a peer record": {envelope.Like(&peer.PeerRecord{}), raw, envelope.ErrType, false},
		"forged":        {kind, forged, envelope.ErrSignature, true},
		"cut":           {kind, raw[:len(raw)-1], envelope.ErrUnsigned, false},
		"nothing":       {kind, nil, envelope.ErrUnsigned, false},
		"bare payload":  {kind, []byte("payload"), envelope.ErrUnsigned, false},
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
	kind := envelope.Of("thing")
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
		case err != nil && !errors.Is(err, envelope.ErrUnsigned) && !errors.Is(err, envelope.ErrType) && !errors.Is(err, envelope.ErrSignature):
			t.Errorf("untyped: %v", err)
		}
	})
}
