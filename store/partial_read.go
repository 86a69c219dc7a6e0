package store

import (
	"errors"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/meta"
)

// object opens p for a reader, who took the use and the lease for it.
func (p *partialObject) object() *Object {
	o := newObject(p.s, meta.Entry{Root: p.root, Size: p.size}, partialSource{p}, p.unuse)
	o.part = p
	return o
}

// covers reports whether bytes [start, end) are all here.
func (p *partialObject) covers(start, end int64) bool {
	if start < 0 || end > p.size || start > end {
		return false
	}
	lo, hi := start/b3.GroupSize, (end+b3.GroupSize-1)/b3.GroupSize
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.groups.Hole(lo, hi) == hi || lo >= hi
}

// partialSource is an object that is arriving. Only what endWrite has noted is
// read: a hole of a sparse file is nobody's byte.
type partialSource struct{ p *partialObject }

var errNotArrived = errors.New("it has not arrived yet")

// ReadGroup implements b3.Source.
func (f partialSource) ReadGroup(g int64, buf []byte) (int, error) {
	p := f.p
	p.mu.Lock()
	there := p.groups.Has(g)
	n := 0
	if there && p.st == nil {
		n = copy(buf, p.buf)
	}
	p.mu.Unlock()
	switch {
	case !there:
		return 0, status.Errorf(status.NotFound, "store: group %d of %s: %w", g, p.root, errNotArrived)
	case p.st == nil:
		return n, nil
	}
	return meta.PairSource{Pair: p.st.Pair, Size: p.size}.ReadGroup(g, buf)
}

// ReadParent implements b3.Source. A parent was written before the first group
// below it.
func (f partialSource) ReadParent(node int64, buf *[b3.ParentSize]byte) error {
	p := f.p
	lo, hi := b3.NodeGroups(node, b3.Groups(p.size))
	p.mu.Lock()
	there := p.groups.Member(lo, hi) < hi
	p.mu.Unlock()
	if !there {
		return status.Errorf(status.NotFound, "store: parent %d of %s: %w", node, p.root, errNotArrived)
	}
	return meta.PairSource{Pair: p.st.Pair, Size: p.size}.ReadParent(node, buf)
}

// failed is [Object.Failed] for a part of an object: a group that is said to be
// here and cannot be proved is dropped, counted, and fetched again.
func (p *partialObject) failed(err error) error {
	var at *b3.GroupError
	if err == nil || status.Of(err) != status.Corrupt || !errors.As(err, &at) {
		return err
	}
	p.mu.Lock()
	if p.over {
		p.mu.Unlock()
		return p.becameWhole(err)
	}
	dropped := p.groups.Remove(at.Group)
	if dropped {
		n := min(b3.GroupSize, p.size-at.Group*b3.GroupSize)
		p.held -= n
		p.s.partials.bytes.Add(-n)
		p.note(at.Group, 0)
	}
	p.mu.Unlock()
	if dropped {
		p.s.metrics.integrity.WithLabelValues("partial").Inc()
	}
	return status.Errorf(status.Corrupt, "store: a part of %s that was here is damaged and is not served; fetch it again: %w", p.root, err)
}

// becameWhole is for a reader that opened the object while it arrived: what is
// damaged is the object now, if it is there.
func (p *partialObject) becameWhole(err error) error {
	if p.s.enter() != nil {
		return err
	}
	defer p.s.leave()
	e, ok, failure := p.s.find(p.root)
	if failure != nil || !ok {
		return err
	}
	return p.s.damaged(e, err)
}

// Covers reports whether bytes [start, end) of the object are here: of a whole
// object, all that it has.
func (o *Object) Covers(start, end int64) bool {
	if o.part != nil {
		return o.part.covers(start, end)
	}
	return 0 <= start && start <= end && end <= o.e.Size
}
