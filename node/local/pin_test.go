package local

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/gateway/api"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
	"allium/store/meta"
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

// watcher looks at the pins of what is pinned.
type watcher struct {
	noNode
	st   *store.Store
	seen []meta.Target
}

func (w *watcher) pinned(ctx context.Context, root b3.Root, _ string, _ bool) {
	for p, err := range w.st.PinsOf(ctx, root) {
		if err == nil {
			w.seen = append(w.seen, p.Target)
		}
	}
}

// syncs counts the syncs of the log.
type syncs struct{ n atomic.Int64 }

func (s *syncs) String() string { return "syncs" }

// MaybeError implements errorfs.Injector. It returns no error.
func (s *syncs) MaybeError(op errorfs.Op) error {
	if op.Kind == errorfs.OpFileSyncData && strings.Contains(op.Path, "/seg/") {
		s.n.Add(1)
	}
	return nil
}

// TestPinWithTarget: a pin and its target are one commit, so the pin is never seen without it. A target of 0 copies
// removes one.
func TestPinWithTarget(t *testing.T) {
	t.Parallel()
	cfg := store.DefaultConfig()
	cfg.Dir, cfg.ReserveBytes = "/store", 0
	var log syncs
	st, _ := storetest.Start(t, cfg, store.Deps{FS: errorfs.Wrap(vfs.NewMem(), &log)})
	root := storetest.Put(t, st, []byte("a pin with a target"))
	w := &watcher{st: st}
	a := &stored{st: st, node: w}
	for _, test := range []struct {
		target  *api.Target
		seen    meta.Target
		end     meta.Target
		commits int64
	}{
		{&api.Target{RF: 3}, meta.Target{Copies: 3}, meta.Target{Copies: 3}, 1},
		{nil, meta.Target{Copies: 3}, meta.Target{Copies: 3}, 1},
		{&api.Target{EC: "4+2"}, meta.Target{Data: 4, Parity: 2}, meta.Target{Data: 4, Parity: 2}, 1},
		{&api.Target{}, meta.Target{Data: 4, Parity: 2}, meta.Target{}, 2},
		{&api.Target{}, meta.Target{}, meta.Target{}, 1},
	} {
		w.seen = nil
		before := log.n.Load()
		if err := a.pin(t.Context(), root, store.PinOptions{}, test.target); err != nil {
			t.Fatal(err)
		}
		if n := log.n.Load() - before; n != test.commits {
			t.Errorf("%+v: %d commits, want %d", test.target, n, test.commits)
		}
		if len(w.seen) != 1 || !w.seen[0].SameCopies(test.seen) {
			t.Errorf("%+v: the pin was seen with %v, want %v", test.target, w.seen, test.seen)
		}
		pins, err := a.pinsOf(t.Context(), root)
		if err != nil || len(pins) != 1 {
			t.Fatal(pins, err)
		}
		for p, err := range st.PinsOf(t.Context(), root) {
			if err != nil || !p.Target.SameCopies(test.end) {
				t.Errorf("%+v: the pin has %v, %v; want %v", test.target, p.Target, err, test.end)
			}
		}
	}
}
