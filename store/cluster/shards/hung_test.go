package shards

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
	"allium/protocols/object"
	"allium/store/cluster/plan"
)

// hanging asks members as its Objects do, but one of them never answers, like a member whose host was just cut off.
type hanging struct {
	Objects
	hung peer.ID

	mu    sync.Mutex
	gets  []peer.ID // that were asked for bytes, in order
	haves int       // requests for presence, to any member
	ends  []error   // why a request to the hung member ended
}

func (h *hanging) wait(ctx context.Context, to peer.ID) error {
	if to != h.hung {
		return nil
	}
	<-ctx.Done()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ends = append(h.ends, ctx.Err())
	return ctx.Err()
}

func (h *hanging) Get(ctx context.Context, to peer.ID, req object.GetRequest, sink object.Sink) error {
	h.mu.Lock()
	h.gets = append(h.gets, to)
	h.mu.Unlock()
	if err := h.wait(ctx, to); err != nil {
		return err
	}
	return h.Objects.Get(ctx, to, req, sink)
}

func (h *hanging) Have(ctx context.Context, to peer.ID, objs []b3.Root) ([]b3.Presence, error) {
	h.mu.Lock()
	h.haves++
	h.mu.Unlock()
	if err := h.wait(ctx, to); err != nil {
		return nil, err
	}
	return h.Objects.Have(ctx, to, objs)
}

// TestHungHolder: a reader does not wait for a holder that hangs. It asks nobody for what it knows, ends its questions
// once it knows enough, and computes the next window before it asks that holder again.
func TestHungHolder(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	p := content(8 * b3.GroupSize)
	_, manifest := c.spread(p, 2, 1)
	reader := c.nodes[2]
	h := &hanging{Objects: reader.client, hung: c.nodes[0].id} // which has the whole object
	reader.deps.Objects = h
	window := func(s *shards, i int64) {
		t.Helper()
		r := b3.Range{Start: i * b3.GroupSize, End: (i + 1) * b3.GroupSize}
		got, err := s.window(t.Context(), 0, 0, r)
		if err != nil || !bytes.Equal(got, p[r.Start:r.End]) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
	}
	s, err := reader.shards(manifest, reader.manifest)
	if err != nil {
		t.Fatal(err)
	}
	window(s, 0)
	if h.haves != 0 {
		t.Errorf("%d members were asked although a shard is here and the holder of the other is known", h.haves)
	}
	h.gets = nil
	window(s, 1)
	if len(h.gets) == 0 || h.gets[0] == h.hung {
		t.Errorf("%s were asked for the second window, and %s hangs", h.gets, h.hung)
	}

	reader.deps.Holders = func(b3.Root) []plan.Holder {
		return []plan.Holder{{ID: plan.ID(h.hung), Piece: plan.Whole}}
	}
	if s, err = reader.shards(manifest, reader.manifest); err != nil {
		t.Fatal(err)
	}
	h.ends, h.haves = nil, 0
	if err := s.askMembers(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if h.haves != 2 || len(h.ends) != 1 || !errors.Is(h.ends[0], context.Canceled) {
		t.Errorf("%d members were asked, and the one that hangs until %v", h.haves, h.ends)
	}
	window(s, 2)
}

// TestUnknownHolder: a shard whose holder is not known yet, as nobody has proved it here, is found at that holder, also
// if the others are too few to compute it.
func TestUnknownHolder(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	p := content(8 * b3.GroupSize)
	object, _ := c.spread(p, 2, 1)
	reader := c.nodes[2]
	reader.deps.Holders = func(b3.Root) []plan.Holder { return nil }
	c.nodes[0].lose()
	if got, err := reader.read(object, int64(len(p))-1, 1); err != nil || !bytes.Equal(got, p[len(p)-1:]) {
		t.Errorf("the last byte: %x, %v", got, err)
	}
	if got, err := reader.read(object, 0, int64(len(p))); err != nil || !bytes.Equal(got, p) {
		t.Errorf("%d of %d bytes, %v", len(got), len(p), err)
	}
}
