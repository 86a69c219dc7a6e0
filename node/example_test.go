package node_test

import (
	"testing"

	"allium/gateway/api"
	"allium/node/local/opener"
)

// TestExampleIsHere fetches and pins what the first page of a gateway offers, on a node that knows no peer.
func TestExampleIsHere(t *testing.T) {
	noLeaks(t)
	example, err := opener.NewExample(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n := start(t, nil)
	if u, err := n.api.StatStore(t.Context()); err != nil || u.Objects != 0 {
		t.Fatalf("a new node has %d objects, %v", u.Objects, err)
	}
	if f, err := n.api.Fetch(t.Context(), example.Root.String(), nil); err != nil || f.Objects < 5 {
		t.Fatalf("%+v, %v", f, err)
	}
	pin, err := n.api.Pin(t.Context(), example.Root.String(), api.PinOptions{Recursive: true})
	if err != nil || pin.Root != example.Root {
		t.Fatalf("%+v, %v", pin, err)
	}
	if u, err := n.api.StatStore(t.Context()); err != nil || u.Objects < 5 {
		t.Errorf("after the pin it has %d objects, %v", u.Objects, err)
	}
}
