package local

import (
	"context"
	"testing"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
	"allium/store/storetest"
)

// renouncer answers that what was asked for without a pin is not removed.
type renouncer struct {
	noNode
	err error
}

func (r renouncer) renounce(context.Context, b3.Root, peer.ID) error { return r.err }

// TestUnpinFails: an object without a pin is said to have none, unless it is unknown or what was asked for could not be
// removed.
func TestUnpinFails(t *testing.T) {
	t.Parallel()
	cfg := store.DefaultConfig()
	cfg.Backend = store.BackendMemory
	st, _ := storetest.Start(t, cfg, store.Deps{})
	root := storetest.Put(t, st, []byte("no pin"))
	for _, test := range []struct {
		err  error
		want status.Outcome
	}{
		{nil, status.OK},
		{errNoCluster, status.NotFound},
		{errNoNode, status.NotFound},
		{status.Errorf(status.NotFound, "it asks for no copies"), status.NotFound},
		{status.Errorf(status.NoSpace, "the disk is full"), status.NoSpace},
		{context.Canceled, status.Of(context.Canceled)},
	} {
		a := &stored{st: st, node: renouncer{err: test.err}}
		if err := a.unpinAll(t.Context(), root); status.Of(err) != test.want {
			t.Errorf("%v: pin rm ends with %v", test.err, err)
		}
	}
}
