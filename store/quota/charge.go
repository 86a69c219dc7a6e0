package quota

import (
	"io"
	"sync"

	"allium/store/meta"
)

// Charge counts the new bytes that an add stores under a label against the label's quota,
// until the add's pin counts them or Release. A nil Charge, for a label without a quota,
// counts nothing and allows everything. It is safe for concurrent use.
type Charge struct {
	q     *Quotas
	label string

	mu    sync.Mutex // lock: leaf
	taken meta.Count
}

// Charge begins to count against the quota of a label. It returns nil when the label has
// none.
func (q *Quotas) Charge(label string) *Charge {
	if _, ok := q.limitOf(label); !ok {
		return nil
	}
	return &Charge{q: q, label: label}
}

// Fits returns quota if one more object of that many bytes does not fit. It counts nothing.
func (c *Charge) Fits(bytes int64) error {
	if c == nil {
		return nil
	}
	l := meta.Count{Objects: 1, Bytes: bytes}
	if err := c.q.change(c.label, meta.Count{}, l); err != nil {
		return err
	}
	return c.q.change(c.label, l, meta.Count{})
}

// Take counts n, or returns quota and counts nothing.
func (c *Charge) Take(n meta.Count) error {
	if c == nil {
		return nil
	}
	if err := c.q.change(c.label, meta.Count{}, n); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.taken = c.taken.Plus(n)
	return nil
}

// Restore counts n without checking the quota: it was counted before a restart.
func (c *Charge) Restore(n meta.Count) {
	if c == nil {
		return
	}
	c.q.mu.Lock()
	c.q.used[c.label] = c.q.used[c.label].Plus(n)
	c.q.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.taken = c.taken.Plus(n)
}

// giveBack subtracts l.
func (c *Charge) giveBack(l meta.Count) {
	if c == nil {
		return
	}
	_ = c.q.change(c.label, l, meta.Count{}) // a change that does not grow the total succeeds
	c.mu.Lock()
	defer c.mu.Unlock()
	c.taken = c.taken.Minus(l)
}

// Release gives back what was taken and not handed to a pin.
func (c *Charge) Release() {
	if c != nil {
		c.giveBack(c.total())
	}
}

// total returns what is taken.
func (c *Charge) total() meta.Count {
	if c == nil {
		return meta.Count{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.taken
}

// Reader counts the bytes of a stream before it returns them.
type Reader struct {
	c *Charge
	r io.Reader
	n int64
}

// Reader returns a reader of r that counts its bytes. A nil charge counts nothing.
func (c *Charge) Reader(r io.Reader) *Reader { return &Reader{c: c, r: r} }

// Read implements [io.Reader]. It returns quota when the label holds as much as it may.
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

// Finish ends the count of a stream. A new object counts as one more object, which is never
// refused; the next one is. If the object was stored already, its bytes are given back.
func (r *Reader) Finish(isNew bool) {
	switch {
	case r.c == nil:
	case isNew:
		r.c.Restore(meta.Count{Objects: 1})
	default:
		r.c.giveBack(meta.Count{Bytes: r.n})
	}
}

// clear forgets what was taken, as the pin counts it now.
func (c *Charge) clear() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.taken = meta.Count{}
}
