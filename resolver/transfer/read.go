package transfer

import (
	"cmp"
	"sync"

	"allium/protocols/b3"
)

var groupBuffers = sync.Pool{New: func() any { return new([b3.GroupSize]byte) }}

// Reader reads what a transfer brings, each group verified. It is for one
// goroutine.
type Reader struct {
	w   *Waiter
	obj b3.Object
	buf *[b3.GroupSize]byte // pooled; nil when nothing was read
}

// Open waits for the size and returns where to read the object and its size,
// proved; nil when the object turned out to be local. The Reader leaves the
// transfer when it is closed; without one the caller does.
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

// reader opens what the transfer, whose size is known, has brought.
func (w *Waiter) reader() (*Reader, error) {
	t := w.t
	obj, err := t.ingest.Open()
	if err == nil {
		return &Reader{w: w, obj: obj}, nil
	}
	// Committed or given up: how the transfer ended decides.
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

// group reads a group that is here.
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

// rereads is how often a group that the store found damaged is asked for again
// before its reader gets the error.
const rereads = 2

// Read waits for group g and returns it, in memory that stays as it is until the
// next call. The end of its waiter ends it.
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
	select { // the ingest ended, and the transfer says why
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
