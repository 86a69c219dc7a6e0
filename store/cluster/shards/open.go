package shards

import (
	"context"
	"errors"
	"sync"
	"time"

	"allium/protocols/b3"
	"allium/protocols/erasure"
	"allium/protocols/status"
	"allium/store"
)

// Has reports whether [Coder.Open] may open an object.
func (c *Coder) Has(root b3.Root) bool {
	_, _, ok := c.deps.Coding(root)
	return ok && c.deps.Filter.Object(root) == nil
}

// Open opens a coded object. It fetches the bytes from members as they are read, until ctx ends. The error is not_found
// if this node holds no piece of the object.
func (c *Coder) Open(ctx context.Context, root b3.Root) (*Object, error) {
	manifest, m, ok := c.deps.Coding(root)
	if !ok {
		return nil, status.Errorf(status.NotFound, "no shard of %s is here", root)
	}
	if err := c.deps.Filter.Object(root); err != nil {
		return nil, err
	}
	s, err := c.shards(manifest, m)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	o := &Object{m: m, s: s, ctx: ctx, cancel: cancel, turn: make(chan struct{}, 1)} // bound: 1, the read that runs
	if !m.Outboard.IsZero() {
		if o.outboard, err = c.deps.Store.Open(ctx, m.Outboard); err != nil {
			cancel()
			return nil, err
		}
		if n := o.outboard.Size(); n != b3.OutboardSize(m.Size) {
			o.Close()
			return nil, status.Errorf(status.Corrupt, "the outboard of %s has %d bytes, and not %d", root, n,
				b3.OutboardSize(m.Size))
		}
	}
	o.reader = b3.NewReader(root, m.Size, o)
	return o, nil
}

// Object is an open coded object. Its methods are safe for concurrent use, but Close must not run while a read is in
// progress.
type Object struct {
	ctx      context.Context
	cancel   context.CancelFunc
	m        *erasure.Manifest
	s        *shards
	outboard *store.Object // nil if the object has one group
	reader   *b3.Reader

	turn   chan struct{} // has a token while the fields below are used
	have   *part         // the current window; nil before the first read
	next   *part         // the window that follows, which is being fetched; nil: none is
	length int64         // of the latest window

	fetching sync.WaitGroup
}

// part is a window of an object. Its bytes and error are there when done is closed.
type part struct {
	off  int64
	done chan struct{}
	p    []byte
	err  error
}

// Size implements b3.Object. The outboard's length, and each read, proves it.
func (o *Object) Size() int64 { return o.m.Size }

// Reader implements b3.Object.
func (o *Object) Reader() *b3.Reader { return o.reader }

// Covers implements object.Object.
func (o *Object) Covers(start, end int64) bool { return 0 <= start && start <= end && end <= o.m.Size }

// Failed implements b3.Object. Bytes that do not match the address came from others, by a manifest that is wrong.
func (o *Object) Failed(err error) error {
	if errors.Is(err, b3.ErrCorrupt) {
		return status.Errorf(status.Upstream, "the shards of %s give other bytes: its coding manifest is wrong: %w",
			o.m.Object, err)
	}
	return err
}

// Close implements b3.Object. It waits for the window that is being fetched.
func (o *Object) Close() error {
	o.cancel()
	o.fetching.Wait()
	if o.outboard != nil {
		o.outboard.Close()
	}
	return nil
}

// ReadParents implements b3.Source.
func (o *Object) ReadParents(node int64, p []byte) (int, error) {
	n, err := b3.ReadParentsAt(o.outboard.Reader(), node, p)
	if err != nil {
		err = o.outboard.Failed(err)
	}
	return n, err
}

// ReadGroup implements b3.Source.
func (o *Object) ReadGroup(g int64, p []byte) (int, error) {
	select {
	case o.turn <- struct{}{}:
	case <-o.ctx.Done():
		return 0, o.ctx.Err()
	}
	defer func() { <-o.turn }()
	off := g * b3.GroupSize
	if o.have == nil || off < o.have.off || off >= o.have.off+int64(len(o.have.p)) {
		if err := o.move(off); err != nil {
			return 0, err
		}
	}
	return copy(p, o.have.p[off-o.have.off:]), nil
}

// move makes the window that begins at an offset of the object the current one. A window is twice as long as the one
// before if that was read to its end; then the one that follows is fetched meanwhile.
func (o *Object) move(off int64) error {
	follows := o.have != nil && off == o.have.off+int64(len(o.have.p))
	w := o.next
	if w != nil {
		<-w.done // within partTime, or when ctx ends
		o.next = nil
	}
	if w == nil || w.off != off || w.err != nil {
		if o.length = min(2*o.length, maxWindow); !follows {
			o.length = b3.GroupSize
		}
		w = o.fetch(off)
		<-w.done
	}
	if w.err != nil {
		return w.err
	}
	o.have = w
	if end := off + int64(len(w.p)); follows && end < o.m.Size {
		o.length = min(2*o.length, maxWindow)
		o.next = o.fetch(end)
	}
	return nil
}

// fetch begins to get the window that begins at an offset.
func (o *Object) fetch(off int64) *part {
	w := &part{off: off, done: make(chan struct{})}
	stripe, shard, at := o.m.Locate(off)
	r := b3.Range{Start: at, End: min(at+o.length, o.m.Stripe(stripe).Length(shard))}
	o.fetching.Go(func() {
		defer close(w.done)
		w.p, w.err = o.s.window(o.ctx, stripe, shard, r)
	})
	return w
}

// window returns a range of a data shard for a reader, within its permits: from a holder or, when nobody gives it at
// once, computed from other shards meanwhile. After that the next windows of the shard are computed first.
func (s *shards) window(ctx context.Context, stripe, shard int, r b3.Range) ([]byte, error) {
	release, err := s.c.reads.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	ctx, cancel := context.WithCancel(ctx)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	type result struct {
		computed bool
		p        []byte
		err      error
	}
	results := make(chan result, 2) // bound: one of each way
	ask := func(compute bool) {
		get := s.part
		if compute {
			get = s.rebuilt
		}
		asking.Go(func() {
			p, err := get(ctx, stripe, shard, r, nil)
			results <- result{compute, p, err}
		})
	}
	first := s.computesFirst(shard)
	ask(first)
	late := time.NewTimer(hedgeAfter)
	defer late.Stop()
	var failed error
	for ways, ended := 1, 0; ; {
		select {
		case got := <-results:
			if got.err == nil {
				s.came(shard, got.computed, first)
				return got.p, nil
			}
			failed = errors.Join(failed, got.err)
			if ctx.Err() == nil {
				s.c.deps.Missed(s.root)
			}
			if ended++; ended == 2 || ctx.Err() != nil {
				return nil, failed
			}
		case <-late.C:
		}
		if ways == 1 {
			ways = 2
			ask(!first)
		}
	}
}

// wait waits until n bytes may be fetched. nil does not wait.
type wait = func(ctx context.Context, n int) error
