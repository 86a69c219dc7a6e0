package quota

import (
	"io"
	"sync"

	"allium/store/meta"
)

// Charge is what an add has stored of new bytes under a label, counted against
// its quota until the add's pin counts it all, or Release. It is nil, and takes
// anything, where the label has no quota. It is safe for concurrent use.
type Charge struct {
	q     *Quotas
	label string

	mu   sync.Mutex
	took meta.Count
}

// Charge begins to count against the quota of a label.
func (q *Quotas) Charge(label string) *Charge {
	if _, ok := q.of(label); !ok {
		return nil
	}
	return &Charge{q: q, label: label}
}

// Fits returns quota when an object of so many bytes could not be stored. It
// takes nothing.
func (c *Charge) Fits(bytes int64) error {
	if c == nil {
		return nil
	}
	l := meta.Count{Objects: 1, Bytes: bytes}
	if err := c.q.replace(c.label, meta.Count{}, l); err != nil {
		return err
	}
	return c.q.replace(c.label, l, meta.Count{})
}

// Take counts n, or returns quota.
func (c *Charge) Take(n meta.Count) error {
	if c == nil {
		return nil
	}
	if err := c.q.replace(c.label, meta.Count{}, n); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.took = c.took.Plus(n)
	return nil
}

// Restore counts n whatever the quota says: it was counted before a restart.
func (c *Charge) Restore(n meta.Count) {
	if c == nil {
		return
	}
	c.q.mu.Lock()
	c.q.used[c.label] = c.q.used[c.label].Plus(n)
	c.q.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.took = c.took.Plus(n)
}

func (c *Charge) give(l meta.Count) {
	if c == nil {
		return
	}
	_ = c.q.replace(c.label, l, meta.Count{}) // less is never refused
	c.mu.Lock()
	defer c.mu.Unlock()
	c.took = c.took.Minus(l)
}

// Release gives back what was taken and not handed to a pin.
func (c *Charge) Release() {
	if c != nil {
		c.give(c.all())
	}
}

func (c *Charge) all() meta.Count {
	if c == nil {
		return meta.Count{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.took
}

// Reader counts the bytes of a stream before it hands them on.
type Reader struct {
	c *Charge
	r io.Reader
	n int64
}

// Reader returns r, whose bytes are counted. A nil charge counts nothing.
func (c *Charge) Reader(r io.Reader) *Reader { return &Reader{c: c, r: r} }

// Read implements [io.Reader]. Its error is quota when the label holds as much as
// it may.
func (r *Reader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	if n > 0 {
		if err := r.c.Take(meta.Count{Bytes: int64(n)}); err != nil {
			return 0, err
		}
		r.n += int64(n)
	}
	return n, err
}

// Settle ends the count of a stream. What was stored counts as one object and is
// not refused any more: the next one is. What was there already is given back.
func (r *Reader) Settle(isNew bool) {
	switch {
	case r.c == nil:
	case isNew:
		r.c.Restore(meta.Count{Objects: 1})
	default:
		r.c.give(meta.Count{Bytes: r.n})
	}
}

// forget makes what was taken the pin's.
func (c *Charge) forget() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.took = meta.Count{}
}
