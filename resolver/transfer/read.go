package transfer

import (
	"cmp"
	"sync"

	"allium/protocols/b3"
)

var groupBuffers = sync.Pool{New: func() any { return new([b3.GroupSize]byte) }}

// Reader reads the groups of a transfer and verifies each. It is not for concurrent
// use.
type Reader struct {
	w   *Waiter
	obj b3.Object
	buf *[b3.GroupSize]byte // pooled; nil when nothing was read
}

// Open waits for the proved size and returns it with a Reader of the object. The
// Reader is nil when the object was local. Closing the Reader leaves the transfer;
// without a Reader the caller calls Leave.
func (w *Waiter) Open() (r *Reader, size int64, err error) {
	size, err = w.Size()
	if err != nil || size < 0 {
		return nil, 0, err
	}
	start, _, err := w.opt.Within(w.t.root, size)
	w.at(start / b3.GroupSize)
	if err != nil {
		return nil, 0, err
	}
	if r, err = w.reader(); err != nil {
		return nil, 0, err
	}
	return r, size, nil
}

// reader opens the object as far as it has arrived. Its size must be known.
func (w *Waiter) reader() (*Reader, error) {
	t := w.t
	obj, err := t.ingest.Open()
	if err == nil {
		return &Reader{w: w, obj: obj}, nil
	}
	// The ingest has ended: committed or suspended, as the transfer's end tells.
	select {
	case <-t.done:
	case <-w.ctx.Done():
		return nil, w.why(nil)
	}
	if t.err != nil {
		return nil, t.err
	}
	if obj, err = t.s.local.Open(w.ctx, t.root); err != nil {
		return nil, err
	}
	return &Reader{w: w, obj: obj}, nil
}

// group reads a stored group.
func (r *Reader) group(g int64) ([]byte, error) {
	if r.buf == nil {
		r.buf = groupBuffers.Get().(*[b3.GroupSize]byte)
	}
	p, err := r.obj.Reader().ReadGroup(g, r.buf[:])
	if err != nil {
		return nil, r.obj.Failed(err)
	}
	return p, nil
}

// Streams reports whether the groups come through RAM and are not stored.
func (r *Reader) Streams() bool { return r.w.t.stream != nil }

// ReadParents reads a parent above the group that Read has returned, as [b3.Source] does. It is for a
// Reader that Streams.
func (r *Reader) ReadParents(node int64, p []byte) (int, error) {
	return r.obj.(*window).ReadParents(node, p)
}

// rereads is the maximum number of times that a group that the store found damaged is requested
// again before its reader gets the error.
const rereads = 2

// Read waits for group g and returns it. The slice is valid until the next call.
// Read ends when the waiter's context ends.
func (r *Reader) Read(g int64) ([]byte, error) {
	w := r.w
	w.at(g)
	for again := 0; ; again++ {
		if err := w.wait(g); err != nil {
			return nil, err
		}
		p, err := r.group(g)
		if err == nil || again == rereads || w.ctx.Err() != nil || !w.t.lost(g) {
			return p, err
		}
	}
}

// wait waits for group g.
func (w *Waiter) wait(g int64) error {
	err := w.t.ingest.Wait(w.ctx, g)
	if err == nil || w.ctx.Err() != nil {
		return w.why(err)
	}
	select { // the ingest has ended, and the transfer knows why
	case <-w.t.done:
		return cmp.Or(w.t.err, err)
	case <-w.ctx.Done():
		return w.why(err)
	}
}

// Close leaves the transfer.
func (r *Reader) Close() {
	if r.buf != nil {
		groupBuffers.Put(r.buf)
		r.buf = nil
	}
	_ = r.obj.Close() // it was only read
	r.w.Leave()
}
