package opener

import (
	"cmp"
	"context"
	"io"
	"time"

	"allium/gateway/content"
	"allium/gateway/policy"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/resolver"
	"allium/resolver/trace"
	"allium/store"
)

// ErrSeed is the answer of a seed to a request to store or fetch an object.
var ErrSeed = status.Errorf(status.NotAllowed,
	"this node is a seed: it helps others to find each other, and neither holds nor fetches content; use "+
		"another node, or another node.profile")

// Found opens objects that are in the store or with peers.
type Found struct {
	Local    Local
	Resolver *resolver.Resolver
	Trace    *trace.Ring   // records what the store answers at once; nil records nothing
	Filter   policy.Filter // of objects that are opened
	Hash     *b3.HashQueue // hashes the groups of encodings; nil: no queue
	Seed     bool          // the node is a seed and fetches nothing
	Example  *Example      // opened where the store does not have it; nil: none
}

// Open implements content.Opener. It asks peers for an object that the store does not have
// or has damaged. With o.LocalOnly it asks no peer and returns the store's error; a seed
// returns ErrSeed. An object of the store whose damage shows while it is read continues from
// peers, unless they must not be asked.
func (f *Found) Open(ctx context.Context, root b3.Root, o content.OpenOptions) (content.Content, error) {
	if err := f.Filter.Object(root); err != nil {
		return nil, err
	}
	begun := time.Now()
	local, err := f.Local.Store.Open(ctx, root)
	switch out := status.Of(err); {
	case err == nil:
		id := f.Trace.HitUnder(
			status.ParentOf(ctx), trace.Open, trace.Key{Root: root}, trace.Store, time.Since(begun))
		c := &localContent{store: f.Local.Store, o: local, lookup: id}
		if !f.Seed && (!o.LocalOnly || o.Admit != nil) {
			c.found, c.options = f, o
		}
		return c, nil
	case out != status.NotFound && out != status.Corrupt:
		return nil, f.Trace.Fail(trace.Open, trace.Key{Root: root}, begun, trace.Store, err)
	}
	if c, ok := f.Example.open(root); ok {
		return c, nil
	}
	switch {
	case o.LocalOnly:
		return nil, err
	case f.Seed:
		return nil, ErrSeed
	}
	r, err := f.openRemote(ctx, root, o, err)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// openRemote opens an object with peers. The error absent says why the store does not have it.
func (f *Found) openRemote(
	ctx context.Context, root b3.Root, o content.OpenOptions, absent error,
) (*remoteContent, error) {
	r := &remoteContent{resolver: f.Resolver, store: f.Local.Store, hash: f.Hash, root: root,
		via: resolver.Sources{Via: o.Via, Peers: o.From}}
	opts := resolver.OpenOptions{Sources: r.via} // an empty range: only the size is fetched
	if o.Whole {
		opts = resolver.Whole(r.via)
	}
	opts.Absent, opts.Unstored = absent, true
	opened, err := f.Resolver.Open(ctx, root, opts)
	if err != nil {
		return nil, err
	}
	r.size, r.resumed, r.lookup = opened.Size(), opened.Resumed(), opened.LookupID()
	if !o.Whole {
		return r, opened.Close()
	}
	r.whole = opened
	return r, nil
}

// RecordServed records that bytes in RAM answered a request, and returns the ID of that lookup.
func (f *Found) RecordServed(root b3.Root) status.LookupID {
	return f.Trace.Hit(trace.Open, trace.Key{Root: root}, trace.Memory, 0)
}

// Memory implements content.Objects.
func (f *Found) Memory(root b3.Root) []byte { return f.Local.Memory(root) }

// Cached implements content.Objects.
func (f *Found) Cached(root b3.Root) bool { return f.Local.Cached(root) }

// remoteContent implements content.Content for an object that is fetched from peers. One
// goroutine uses it at a time.
type remoteContent struct {
	resolver *resolver.Resolver
	store    *store.Store
	hash     *b3.HashQueue
	root     b3.Root
	via      resolver.Sources
	size     int64
	resumed  int64
	lookup   status.LookupID
	whole    *resolver.Content // the whole object, opened by Open; nil once reader has taken it
}

func (c *remoteContent) Size() int64 { return c.size }

// LookupID returns the lookup that found the object.
func (c *remoteContent) LookupID() status.LookupID { return c.lookup }

// Resumed implements resumer.
func (c *remoteContent) Resumed() int64 { return c.resumed }

// Close closes what Open opened, unless reader has taken it.
func (c *remoteContent) Close() error {
	if c.whole != nil {
		return c.whole.Close()
	}
	return nil
}

// Copy writes verified bytes as they arrive, and the store keeps them if it has space. If Open opened the
// whole object, Copy peeks at its first bytes and does not consume them. So a caller that
// detects the type of an object does not fetch its beginning twice.
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
	_, readErr, writeErr := copyTo(ctx, w, from)
	return cmp.Or(writeErr, readErr)
}

// Fill writes the whole object to w while it arrives, each verified group at its place, and the store
// keeps it. It calls wrote with the bytes of each write.
func (c *remoteContent) Fill(ctx context.Context, w io.WriterAt, wrote func(n int)) error {
	from, err := c.reader(ctx, 0, c.size)
	if err != nil {
		return err
	}
	defer from.Close()
	return from.Fill(w, wrote)
}

// MoveOut waits until the store has the whole object and takes its file out of the store, as
// [store.Store.MoveOut] does. Bytes that nobody has read since they arrived are not proved again.
func (c *remoteContent) MoveOut(ctx context.Context, move func(path string) error) error {
	return c.stored(ctx, func(o *store.Object) error { return c.store.MoveOut(ctx, o, move) })
}

// MoveAndRestore is MoveOut for a store that is to keep the object, as
// [store.Store.MoveAndRestore] does.
func (c *remoteContent) MoveAndRestore(ctx context.Context, check, move func(path string) error) error {
	return c.stored(ctx, func(o *store.Object) error { return c.store.MoveAndRestore(ctx, o, check, move) })
}

// stored calls do with the object when the store has it whole and the transfer has let go of it.
func (c *remoteContent) stored(ctx context.Context, do func(o *store.Object) error) error {
	if _, err := c.resolver.Fetch(ctx, c.root, resolver.FetchOptions{Sources: c.via}); err != nil {
		return err
	}
	if err := c.resolver.Settle(ctx, c.root); err != nil {
		return err
	}
	o, err := c.store.Open(ctx, c.root)
	if err != nil {
		return err
	}
	defer o.Close()
	return do(o)
}

// reader returns bytes [start, end). For the whole object it takes what Open opened, if
// that is still there; for another range it closes that and opens the range.
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
	o := resolver.OpenOptions{Start: start, End: end, Unstored: true, Sources: c.via}
	if whole {
		o.End = resolver.ToEnd
	}
	return c.resolver.Open(ctx, c.root, o)
}
