package opener

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"

	"allium/gateway/content"
	"allium/protocols/b3"
	"allium/protocols/bao"
	"allium/protocols/status"
	"allium/store"
)

// localContent implements content.Content for an object of the store. When a group of it proves to
// be damaged, it opens the object with peers, and continues with the first byte that was not written.
type localContent struct {
	store  *store.Store
	o      *store.Object
	lookup status.LookupID // 0: it was not recorded

	found   *Found // opens the object with peers; nil: they are not asked
	options content.OpenOptions
	remote  *remoteContent // takes the place of o once that proved to be damaged
	leave   func()         // returns what options.Admit took; nil for nothing
}

// LookupID returns the lookup that found the object.
func (c *localContent) LookupID() status.LookupID { return c.lookup }

func (c *localContent) Size() int64 { return c.o.Size() }

// Close closes the object, and what mend opened.
func (c *localContent) Close() error {
	if c.remote != nil {
		_ = c.remote.Close() // it was only read
	}
	if c.leave != nil {
		c.leave()
		c.leave = nil
	}
	return c.o.Close()
}

// mend opens the object with peers after a read of it failed with here, if that is damage. It
// returns nil when the caller is to continue with c.remote.
func (c *localContent) mend(ctx context.Context, here error) (err error) {
	if c.found == nil || status.Of(here) != status.Corrupt {
		return here
	}
	from := c.found
	c.found = nil // once
	if c.options.Admit != nil {
		if c.leave, err = c.options.Admit(ctx); err != nil {
			return fmt.Errorf("%w; fetching it again failed: %w", here, err)
		}
	}
	// The lease ends, so that the copy that arrives can replace this one.
	if err := c.o.Close(); err != nil {
		return err
	}
	o := content.OpenOptions{Via: c.options.Via, From: c.options.From}
	c.remote, err = from.openRemote(ctx, c.o.Root(), o, here)
	return err // it says that the copy here is damaged too
}

// Copy writes verified bytes. If a group is damaged, Copy writes nothing of it, and the store does
// not serve the object again before a whole copy has replaced it. The rest comes from peers, or Copy
// fails.
func (c *localContent) Copy(ctx context.Context, w io.Writer, start, end int64) error {
	if c.remote != nil {
		return c.remote.Copy(ctx, w, start, end)
	}
	s := c.o.Reader().Section(start, end)
	n, readErr, writeErr := copyTo(ctx, w, s)
	_ = s.Close() // always nil
	if readErr == nil {
		return writeErr
	}
	if err := c.mend(ctx, c.o.Failed(readErr)); err != nil {
		return err
	}
	return c.remote.Copy(ctx, w, start+n, end)
}

// Encode writes the bytes together with their proof. Damage has the effect that it has in
// Copy.
func (c *localContent) Encode(ctx context.Context, w io.Writer, start, end int64) error {
	if c.remote != nil {
		return c.remote.Encode(ctx, w, start, end)
	}
	e, err := bao.NewEncoder(c.o.Reader(), b3.Range{Start: start, End: end})
	if err != nil {
		return err
	}
	n, readErr, writeErr := copyTo(ctx, w, e)
	if readErr == nil {
		return writeErr
	}
	if err := c.mend(ctx, c.o.Failed(readErr)); err != nil {
		return err
	}
	// The encoding of a peer continues ours: all encodings of an object have the same bytes.
	return c.remote.Encode(ctx, &tailWriter{w: w, skip: n}, start, end)
}

// Fill writes the whole object to w, each verified group at its place and several at a time. It calls
// wrote with the bytes of each write. Damage has the effect that it has in Copy.
func (c *localContent) Fill(ctx context.Context, w io.WriterAt, wrote func(n int)) error {
	if c.remote != nil {
		return c.remote.Fill(ctx, w, wrote)
	}
	var told atomic.Int64
	readErr, writeErr := c.o.Reader().WriteAllTo(ctx, w, func(n int) {
		told.Add(int64(n))
		wrote(n)
	})
	if readErr == nil || writeErr != nil {
		return writeErr
	}
	if err := c.mend(ctx, c.o.Failed(readErr)); err != nil {
		return err
	}
	return c.remote.Fill(ctx, w, func(n int) {
		if left := told.Add(-int64(n)); left < 0 { // bytes beyond those that were told before
			wrote(int(min(int64(n), -left)))
		}
	})
}

// MoveOut takes the object's file out of the store, as [store.Store.MoveOut] does.
func (c *localContent) MoveOut(ctx context.Context, move func(path string) error) error {
	if c.remote != nil {
		return c.remote.MoveOut(ctx, move)
	}
	return c.store.MoveOut(ctx, c.o, move)
}

// tailWriter writes to w what follows the first skip bytes.
type tailWriter struct {
	w    io.Writer
	skip int64
}

func (t *tailWriter) Write(p []byte) (int, error) {
	n := int(min(t.skip, int64(len(p))))
	t.skip -= int64(n)
	if n == len(p) {
		return n, nil
	}
	m, err := t.w.Write(p[n:])
	return n + m, err
}
