package resolver

import (
	"cmp"
	"context"
	"errors"
	"io"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/resolver/transfer"
)

// Source is the origin of the bytes of a Content.
type Source uint8

// The sources.
const (
	SourceLocal Source = iota // the node's own store
	SourcePeer                // other peers, now
)

// String returns the source's name in JSON, headers and metrics.
func (s Source) String() string {
	if s == SourceLocal {
		return "local"
	}
	return "peer"
}

// Content is an open object, or a range of one. Its size is proved, and each
// group is verified before its bytes are handed out. It is not for concurrent
// use. The caller closes it.
type Content struct {
	root    b3.Root
	size    int64
	start   int64
	end     int64
	source  Source
	lookup  status.LookupID
	resumed int64

	ctx    context.Context
	from   groups
	stream func(opt OpenOptions, full error) (*transfer.Waiter, error) // nil: what cannot be stored fails
	via    Sources
	done   func() // ends the admitted work; nil for local objects

	off  int64  // the offset of the next byte in the object
	rest []byte // the part of the current group that was not handed out yet
	err  error
}

// groups is the source of a Content's bytes.
type groups interface {
	// Read returns group g, verified, in memory that stays as it is until the
	// next call.
	Read(g int64) ([]byte, error)
	Close()
}

// Size returns the proved size of the whole object in bytes.
func (c *Content) Size() int64 { return c.size }

// LookupID returns the lookup that records how the object was found.
func (c *Content) LookupID() status.LookupID { return c.lookup }

// Resumed returns how many bytes of the object were already stored when the
// fetch began, because an earlier fetch was cut short. It is 0 for a local object.
func (c *Content) Resumed() int64 { return c.resumed }

// begin cuts the range to the size and reads its first group. An object that
// cannot be read therefore fails before its size is promised to a client. When
// begin fails it closes c.
func (c *Content) begin(opt OpenOptions, size int64) (*Content, error) {
	start, end, err := opt.Within(c.root, size)
	c.size, c.start, c.end, c.off = size, start, end, start
	if err == nil && start < end {
		if l, ok := c.from.(*localGroups); ok {
			l.inOrder(start, end)
		}
		err = c.fill()
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Read implements [io.Reader].
func (c *Content) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if err := c.fill(); err != nil {
		return 0, err
	}
	n := copy(p, c.rest)
	c.take(n)
	return n, nil
}

// WriteTo implements [io.WriterTo] with one Write for each group.
func (c *Content) WriteTo(w io.Writer) (total int64, err error) {
	for {
		switch err := c.fill(); {
		case errors.Is(err, io.EOF):
			return total, nil
		case err != nil:
			return total, err
		}
		n, err := w.Write(c.rest)
		total += int64(n)
		c.take(n)
		if err != nil {
			return total, err
		}
		if len(c.rest) > 0 {
			return total, io.ErrShortWrite
		}
	}
}

// Fill writes the whole object to w, each group at its place and once, in any order and several at a time. It calls
// wrote with the bytes of each write, from several goroutines. Groups that arrive are written as soon as they are
// proved. Fill is for a Content of the whole object, before anything was read from it. An error of w comes back
// unchanged; no write is in progress when Fill returns.
func (c *Content) Fill(w io.WriterAt, wrote func(n int)) error {
	var err error
	switch from := c.from.(type) {
	case *transfer.Reader:
		if from.Streams() {
			return c.fillInOrder(w, wrote)
		}
		err = from.Fill(w, wrote)
	case *localGroups:
		var writeErr error
		if err, writeErr = from.obj.Reader().WriteAllTo(c.ctx, w, wrote); err != nil {
			err = from.obj.Failed(err)
		}
		err = cmp.Or(err, writeErr)
	default: // an object whose size is known and that has no bytes
	}
	return status.WithLookup(drainingError(c.ctx, err), c.lookup)
}

// fillInOrder is Fill for an object that comes through RAM.
func (c *Content) fillInOrder(w io.WriterAt, wrote func(n int)) error {
	for {
		switch err := c.fill(); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		n, err := w.WriteAt(c.rest, c.off)
		wrote(n)
		if err != nil {
			return err
		}
		c.take(n)
	}
}

// Streams reports whether the content comes through RAM, because the store has no space for it.
func (c *Content) Streams() bool {
	r, ok := c.from.(*transfer.Reader)
	return ok && r.Streams()
}

// ReadParents reads a parent above the group that was read last, as [b3.Source] does. It is for a
// Content that Streams.
func (c *Content) ReadParents(node int64, p []byte) (int, error) {
	return c.from.(*transfer.Reader).ReadParents(node, p)
}

// openStream lets c read the range opt through RAM, because of full, the error of the store. It
// returns the proved size.
func (c *Content) openStream(opt OpenOptions, full error) (size int64, err error) {
	if c.from != nil {
		c.from.Close()
		c.from = nil
	}
	w, err := c.stream(opt, full)
	if err != nil {
		return 0, err
	}
	c.lookup = w.LookupID()
	from, size, err := w.Open()
	if err != nil {
		w.Leave()
		return 0, err
	}
	c.from = from
	return size, nil
}

// full reports whether err says that the store has no space for an object that can come through RAM.
func (c *Content) full(err error) bool {
	return c.stream != nil && !c.Streams() && status.Of(err) == status.NoSpace
}

// Peek returns the next bytes without consuming them: at least one byte and at
// most one group. They are valid until the next Read or WriteTo.
func (c *Content) Peek() ([]byte, error) {
	err := c.fill()
	return c.rest, err
}

func (c *Content) take(n int) {
	c.rest = c.rest[n:]
	c.off += int64(n)
}

// fill reads the next group into rest when rest is empty. It returns io.EOF at
// the end of the range.
func (c *Content) fill() error {
	switch {
	case c.err != nil:
		return c.err
	case len(c.rest) > 0:
		return nil
	case c.off >= c.end:
		return io.EOF
	}
	g := c.off / b3.GroupSize
	p, err := c.from.Read(g)
	if c.full(err) {
		rest := OpenOptions{Start: c.off, End: c.end, Sources: c.via}
		if _, err = c.openStream(rest, err); err == nil {
			p, err = c.from.Read(g)
		}
	}
	if err != nil {
		c.err = status.WithLookup(drainingError(c.ctx, err), c.lookup)
		return c.err
	}
	at := g * b3.GroupSize
	c.rest = p[c.off-at : min(int64(len(p)), c.end-at)]
	return nil
}

var errClosed = errors.New("the content is closed")

// Close ends the reading. The fetch behind it ends too, unless other callers
// wait for it. Close is idempotent and returns nil.
func (c *Content) Close() error {
	if errors.Is(c.err, errClosed) {
		return nil
	}
	c.err, c.rest = errClosed, nil
	if c.from != nil {
		c.from.Close()
	}
	if c.done != nil {
		c.done()
	}
	return nil
}

// localGroups reads an object of the store, or a range of it, in order and one
// group ahead.
type localGroups struct {
	obj     b3.Object
	section *b3.Section // nil when the range is empty
}

// inOrder prepares to read the groups of bytes start to end one after the other.
func (l *localGroups) inOrder(start, end int64) {
	last := (end-1)/b3.GroupSize + 1
	l.section = l.obj.Reader().Section(start/b3.GroupSize*b3.GroupSize, last*b3.GroupSize)
}

// Read implements groups.
func (l *localGroups) Read(int64) ([]byte, error) {
	p, err := l.section.Group()
	if err != nil {
		return nil, l.obj.Failed(err)
	}
	return p, nil
}

// Close implements groups.
func (l *localGroups) Close() {
	if l.section != nil {
		_ = l.section.Close() // always nil
	}
	_ = l.obj.Close() // it was only read
}
