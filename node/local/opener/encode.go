package opener

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

// Encode writes groups as they arrive, with their parents, which the store has by then.
// The resolver's read-ahead bounds how far the fetch runs ahead of w.
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
	src := &fetchSource{ctx: ctx, st: c.store, root: c.root, size: c.size, from: from, next: first / b3.GroupSize}
	defer src.close()
	e, err := bao.NewEncoder(c.hash.Reader(c.root, c.size, src), b3.Range{Start: start, End: end})
	if err != nil {
		return err
	}
	_, readErr, writeErr := copyTo(ctx, w, e)
	return cmp.Or(writeErr, src.failed(readErr))
}

// fetchSource is a b3.Source for one range of an object that is being fetched. Groups come
// from the fetch, in order. Parents come from the store, which writes each parent before a
// group below it, or from the fetch if the store has no space. One goroutine uses it.
type fetchSource struct {
	ctx  context.Context
	st   *store.Store
	root b3.Root
	size int64

	from *resolver.Content // starts at the first group of the range
	next int64             // number of the group that fetch reads next
	have []byte            // group next−1, until ReadGroup returns it; nil: none
	buf  [b3.GroupSize]byte

	obj *store.Object // the object in the store; nil until ReadParents opens it
}

// ReadGroup implements b3.Source.
func (a *fetchSource) ReadGroup(g int64, p []byte) (int, error) {
	if a.have == nil {
		if err := a.fetch(); err != nil {
			return 0, err
		}
	}
	if g != a.next-1 {
		return 0, status.Errorf(status.Internal, "group %d of %s was read out of order: group %d is next", g, a.root,
			a.next-1)
	}
	n := copy(p, a.have)
	a.have = nil
	return n, nil
}

// ReadParents implements b3.Source. The node is above the next group, so the store has it
// once that group has arrived.
func (a *fetchSource) ReadParents(node int64, p []byte) (int, error) {
	if a.have == nil {
		if err := a.fetch(); err != nil {
			return 0, err
		}
	}
	if a.from.Streams() {
		return a.from.ReadParents(node, p)
	}
	if a.obj == nil {
		var err error
		if a.obj, err = a.open(); err != nil {
			return 0, err
		}
	}
	return a.obj.Source().ReadParents(node, p)
}

// fetch reads the next group into have, and waits until it has arrived.
func (a *fetchSource) fetch() error {
	n := min(b3.GroupSize, a.size-a.next*b3.GroupSize)
	if _, err := io.ReadFull(a.from, a.buf[:n]); err != nil {
		return err
	}
	a.have = a.buf[:n]
	a.next++
	return nil
}

// open opens the object in the store, whole or partial. If neither is there, the object
// may have become whole between the two calls, so open looks for the whole one again.
func (a *fetchSource) open() (*store.Object, error) {
	o, err := a.st.Open(a.ctx, a.root)
	if !absentHere(err) {
		return o, err
	}
	if o, err = a.st.OpenPartial(a.ctx, a.root); !absentHere(err) {
		return o, err
	}
	return a.st.Open(a.ctx, a.root)
}

// absentHere reports whether err says that the store does not have the whole object, or has it damaged.
func absentHere(err error) bool {
	o := status.Of(err)
	return o == status.NotFound || o == status.Corrupt
}

// failed reports to the store the damage that reading it has found, and returns the error
// for the caller.
func (a *fetchSource) failed(err error) error {
	if a.obj == nil {
		return err
	}
	return a.obj.Failed(err)
}

// close closes the object in the store. The caller of Encode closes the fetch.
func (a *fetchSource) close() {
	if a.obj != nil {
		_ = a.obj.Close() // always nil
	}
}
