package objects

import (
	"cmp"
	"context"
	"io"

	"allium/gateway/content"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/resolver"
	"allium/store"
)

// ErrSeed is what a seed answers to a caller that wants it to hold something.
var ErrSeed = status.Errorf(status.NotAllowed, "this node is a seed: it helps others to find each other, and neither holds nor fetches content; use another node, or another node.profile")

// Found opens objects wherever they are: in the store, or with peers.
type Found struct {
	Local    Local
	Resolver *resolver.Resolver
	Denied   func(b3.Root) error
	Hash     *b3.HashQueue // that the groups of encodings pass; nil: none
	Seed     bool          // it fetches nothing
}

// Open implements content.Opener.
func (f Found) Open(ctx context.Context, root b3.Root, o content.OpenOptions) (content.Content, error) {
	if err := f.Denied(root); err != nil {
		return nil, err
	}
	c, err := f.Local.Open(ctx, root, o)
	switch out := status.Of(err); {
	case out != status.NotFound && out != status.Corrupt:
		return c, err
	case o.LocalOnly:
		return nil, err
	case f.Seed:
		return nil, ErrSeed
	}
	r := &remoteContent{resolver: f.Resolver, store: f.Local.Store, hash: f.Hash, root: root, via: resolver.Sources{Via: o.Via}}
	want := resolver.OpenOptions{Sources: r.via} // no bytes: the size alone
	if o.Whole {
		want = resolver.Whole(r.via)
	}
	want.Absent = err
	ahead, err := f.Resolver.Open(ctx, root, want)
	if err != nil {
		return nil, err
	}
	r.size, r.resumed = ahead.Size(), ahead.Resumed()
	if !o.Whole {
		return r, ahead.Close()
	}
	r.whole = ahead
	return r, nil
}

// Memory implements content.Objects.
func (f Found) Memory(root b3.Root) []byte { return f.Local.Memory(root) }

// remoteContent is an object that peers have.
type remoteContent struct {
	resolver *resolver.Resolver
	store    *store.Store
	hash     *b3.HashQueue
	root     b3.Root
	via      resolver.Sources
	size     int64
	resumed  int64
	whole    *resolver.Content // opened ahead; nil once it is used
}

func (c *remoteContent) Size() int64 { return c.size }

// Resumed implements resumer.
func (c *remoteContent) Resumed() int64 { return c.resumed }

// Close gives up what was opened and not used.
func (c *remoteContent) Close() error {
	if c.whole != nil {
		return c.whole.Close()
	}
	return nil
}

// Copy writes bytes as they arrive, verified. They are kept. The first bytes of what
// was opened ahead are read without giving it up, so that a look at the kind of an
// object costs nothing.
func (c *remoteContent) Copy(ctx context.Context, w io.Writer, start, end int64) error {
	if start == end {
		return nil
	}
	if c.whole != nil && start == 0 {
		head, err := c.whole.Peek()
		if err != nil {
			return err
		}
		if end <= int64(len(head)) {
			_, err := w.Write(head[:end])
			return err
		}
	}
	from, err := c.reader(ctx, start, end)
	if err != nil {
		return err
	}
	defer from.Close()
	readErr, writeErr := transfer(ctx, w, from)
	return cmp.Or(writeErr, readErr)
}

// reader opens bytes [start, end), or takes what was opened ahead.
func (c *remoteContent) reader(ctx context.Context, start, end int64) (*resolver.Content, error) {
	from := c.whole
	c.whole = nil
	whole := start == 0 && end == c.size
	if from != nil && whole {
		return from, nil
	}
	if from != nil {
		_ = from.Close()
	}
	o := resolver.OpenOptions{Start: start, End: end, Sources: c.via}
	if whole {
		o.End = resolver.ToEnd
	}
	return c.resolver.Open(ctx, c.root, o)
}
