package home

import (
	"testing"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/status"
)

// TestAudience: "self" is the home's own node, and everything else a peer id.
func TestAudience(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	if _, err := Audience(home, "self"); status.Of(err) != status.BadRequest {
		t.Errorf("%v", err)
	}
	key, _, err := crypto.GenerateEd25519Key(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := Give(home, key); err != nil {
		t.Fatal(err)
	}
	id, err := peer.IDFromPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for _, in := range []string{"self", id.String(), peer.ToCid(id).String()} {
		if got, err := Audience(home, in); err != nil || got != id.String() {
			t.Errorf("%s: %s, %v", in, got, err)
		}
	}
	if _, err := Audience(home, "me"); status.Of(err) != status.BadRequest {
		t.Errorf("%v", err)
	}
}
