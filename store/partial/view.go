package partial

import (
	"errors"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/meta"
)

// View is what is here of an object, open for reading. It sees what arrives
// meanwhile. It holds a lease until Close. Its methods are safe for concurrent use.
type View struct{ p *object }

// Root is the address of the object.
func (v *View) Root() b3.Root { return v.p.root }

// Size is the size of the whole object in bytes; while an ingest runs that has not
// proved it, the size that was claimed.
func (v *View) Size() int64 { return v.p.size }

// Source is the raw storage: whoever reads it verifies. What has not arrived is
// not_found.
func (v *View) Source() b3.Source { return source{v.p} }

// Close gives up the lease and the files. It is called once.
func (v *View) Close() {
	v.p.unuse()
	v.p.t.deps.Leases.Release(v.p.root)
}

// Covers reports whether bytes [start, end) are all here.
func (v *View) Covers(start, end int64) bool {
	p := v.p
	if start < 0 || end > p.size || start > end {
		return false
	}
	lo, hi := start/b3.GroupSize, (end+b3.GroupSize-1)/b3.GroupSize
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.groups.Hole(lo, hi) == hi || lo >= hi
}

// source is an object that is arriving. Only what endWrite has noted is
// read: a hole of a sparse file is nobody's byte.
type source struct{ p *object }

var errNotArrived = errors.New("it has not arrived yet")

// ReadGroup implements b3.Source.
func (f source) ReadGroup(g int64, buf []byte) (int, error) {
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
func (f source) ReadParent(node int64, buf *[b3.ParentSize]byte) error {
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

// Failed takes the error that a read ended with. A group that is said to be here and
// cannot be proved is dropped, counted, and fetched again.
func (v *View) Failed(err error) error {
	p := v.p
	var at *b3.GroupError
	if err == nil || status.Of(err) != status.Corrupt || !errors.As(err, &at) {
		return err
	}
	p.mu.Lock()
	if p.over {
		p.mu.Unlock()
		// A reader that opened the object while it arrived reads the whole one now.
		return p.t.deps.Damaged(p.root, err)
	}
	dropped := p.groups.Remove(at.Group)
	if dropped {
		n := min(b3.GroupSize, p.size-at.Group*b3.GroupSize)
		p.held -= n
		p.t.bytes.Add(-n)
		p.note(at.Group, 0)
	}
	p.mu.Unlock()
	if dropped {
		p.t.deps.CountDamage()
	}
	return status.Errorf(status.Corrupt, "store: a part of %s that was here is damaged and is not served; fetch it again: %w", p.root, err)
}
