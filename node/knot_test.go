package node_test

import (
	"testing"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/gateway/api"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/meta"
	"allium/store/storetest"
)

// TestSharedKnot: a node shares directories that name each other in more ways than anybody can walk. It still tells
// peers of everything else that it holds, and what it is asked to do with the directories ends.
func TestSharedKnot(t *testing.T) {
	const levels = 250
	a := start(t, nil)
	b := start(t, joining(a))
	put := func(p []byte) b3.Root { return storetest.Put(t, a.Store(), p) }
	roots := storetest.Knot(t, put, levels)
	top, beside := roots[len(roots)-1], put([]byte("an object that nobody has announced"))
	opt := api.PinOptions{Recursive: true, Label: meta.SharedLabel}
	if _, err := a.api.Pin(t.Context(), top.String(), opt); err != nil {
		t.Fatal(err)
	}
	self, err := peer.Decode(a.ID().ID)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(root b3.Root) (has bool) {
		found, err := b.IndexClient().Providers(t.Context(), self, root, 4)
		if err != nil && status.Of(err) != status.NotFound {
			t.Fatal(err)
		}
		for _, p := range found {
			has = has || p.ID == self
		}
		return has
	}
	if !ask(beside) {
		t.Error("the node does not tell of an object that it holds")
	}
	for _, root := range []b3.Root{roots[0], roots[levels/2], top} {
		if ask(root) {
			t.Error("the node tells of a shared object")
		}
	}
	checked := 0
	for v, err := range a.api.Verify(t.Context(), top.String(), api.VerifyOptions{}) {
		if err != nil || v.Error != nil {
			t.Fatal(err, v.Error)
		}
		checked++
	}
	if checked != len(roots) {
		t.Errorf("%d objects were checked, there are %d", checked, len(roots))
	}
	for p, err := range a.api.Pins(t.Context()) {
		if err != nil || p.AtLeast || p.Size > int64(len(roots))*200 {
			t.Errorf("the pin is %+v, %v", p, err)
		}
	}
	f, err := b.api.Fetch(t.Context(), top.String(), nil)
	if most := int64(2*len(roots) + 1); err != nil || f.Objects > most {
		t.Errorf("the fetch looked at %d objects (%v), the most are %d", f.Objects, err, most)
	}
}
