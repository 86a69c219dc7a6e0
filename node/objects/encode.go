package objects

import (
	"cmp"
	"context"
	"io"

	"allium/protocols/b3"
	"allium/protocols/bao"
	"allium/protocols/status"
	"allium/resolver"
	"allium/store"
)

// Encode writes groups as they arrive, with the parents that the store has of
// them by then. It reads on only as far as the resolver reads ahead.
func (c *remoteContent) Encode(ctx context.Context, w io.Writer, start, end int64) error {
	if c.size == 0 {
		start, end = 0, 0
	}
	first := start / b3.GroupSize * b3.GroupSize
	last := min((end+b3.GroupSize-1)/b3.GroupSize*b3.GroupSize, c.size)
	from, err := c.reader(ctx, first, last)
	if err != nil {
		return err
	}
	defer from.Close()
	src := &arriving{ctx: ctx, st: c.store, root: c.root, size: c.size, from: from, next: first / b3.GroupSize}
	defer src.close()
	e, err := bao.NewEncoder(c.hash.Reader(c.root, c.size, src), b3.Range{Start: start, End: end})
	if err != nil {
		return err
	}
	readErr, writeErr := transfer(ctx, w, e)
	return cmp.Or(writeErr, src.failed(readErr))
}

// arriving is the source of a walk over one range of an object that is being
// fetched: groups come from the fetch, in order, and parents from the store,
// where each was written before a group below it. It is used by one goroutine.
type arriving struct {
	ctx  context.Context
	st   *store.Store
	root b3.Root
	size int64

	from *resolver.Content // from the first group of the range on
	next int64             // the group that from gives next
	have []byte            // group next−1, when the walk has yet to ask for it
	buf  [b3.GroupSize]byte

	obj *store.Object // what is here, for its parents; nil until one is asked for
}

// ReadGroup implements b3.Source.
func (a *arriving) ReadGroup(g int64, p []byte) (int, error) {
	if a.have == nil {
		if err := a.fetch(); err != nil {
			return 0, err
		}
	}
	if g != a.next-1 {
		return 0, status.Errorf(status.Internal, "node: group %d of %s out of turn, %d is next", g, a.root, a.next-1)
	}
	n := copy(p, a.have)
	a.have = nil
	return n, nil
}

// ReadParent implements b3.Source. It is above the group that comes next, so it
// is here when that is.
func (a *arriving) ReadParent(node int64, p *[b3.ParentSize]byte) error {
	if a.have == nil {
		if err := a.fetch(); err != nil {
			return err
		}
	}
	if a.obj == nil {
		var err error
		if a.obj, err = a.open(); err != nil {
			return err
		}
	}
	return a.obj.Source().ReadParent(node, p)
}

// fetch waits for the next group.
func (a *arriving) fetch() error {
	n := min(b3.GroupSize, a.size-a.next*b3.GroupSize)
	if _, err := io.ReadFull(a.from, a.buf[:n]); err != nil {
		return err
	}
	a.have = a.buf[:n]
	a.next++
	return nil
}

// open opens the object, whole or not. Between the two looks it may have become
// whole.
func (a *arriving) open() (*store.Object, error) {
	o, err := a.st.Open(a.ctx, a.root)
	if !absentHere(err) {
		return o, err
	}
	if o, err = a.st.OpenPartial(a.ctx, a.root); !absentHere(err) {
		return o, err
	}
	return a.st.Open(a.ctx, a.root)
}

// absentHere reports whether err says that a whole object is not here.
func absentHere(err error) bool {
	o := status.Of(err)
	return o == status.NotFound || o == status.Corrupt
}

// failed tells the store of damage that the walk found.
func (a *arriving) failed(err error) error {
	if a.obj == nil {
		return err
	}
	return a.obj.Failed(err)
}

func (a *arriving) close() {
	if a.obj != nil {
		_ = a.obj.Close() // always nil
	}
}
