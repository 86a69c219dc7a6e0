package partial

import (
	"errors"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/meta"
)

// View reads the groups of a partial object that are stored, including those that arrive
// later. It holds a lease and the files until Close. Its methods are safe for concurrent
// use.
type View struct{ object *object }

// Root returns the address of the object.
func (v *View) Root() b3.Root { return v.object.root }

// Size returns the size of the whole object in bytes. It is the claimed size while an
// ingest has not proved it.
func (v *View) Size() int64 { return v.object.size }

// Source returns the stored groups without verification; the reader verifies. A group that
// is not stored is not_found.
func (v *View) Source() b3.Source { return source{v.object} }

// Close releases the lease and the files. It is called once.
func (v *View) Close() {
	v.object.release()
	v.object.t.deps.Leases.Release(v.object.root)
}

// Covers reports whether all bytes of [start, end) are stored.
func (v *View) Covers(start, end int64) bool {
	p := v.object
	if start < 0 || end > p.size || start > end {
		return false
	}
	lo, hi := start/b3.GroupSize, (end+b3.GroupSize-1)/b3.GroupSize
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.groups.FirstAbsent(lo, hi) == hi || lo >= hi
}

// source reads the stored groups of an object. It reads only groups that endWrite has
// marked, as holes of a sparse file read as zeros.
type source struct{ object *object }

var errNotArrived = errors.New("it has not arrived yet")

// ReadGroup implements b3.Source.
func (f source) ReadGroup(g int64, buf []byte) (int, error) {
	p := f.object
	p.mu.Lock()
	stored := p.groups.Has(g)
	n := 0
	if stored && p.staging == nil {
		n = copy(buf, p.smallData)
	}
	p.mu.Unlock()
	switch {
	case !stored:
		return 0, status.Errorf(status.NotFound, "read group %d of %s: %w", g, p.root, errNotArrived)
	case p.staging == nil:
		return n, nil
	}
	return meta.PairSource{Pair: p.staging.Pair, Size: p.size}.ReadGroup(g, buf)
}

// ReadParents implements b3.Source. A parent is there when any group below it is; those below it are
// there too when all groups are.
func (f source) ReadParents(node int64, buf []byte) (int, error) {
	p := f.object
	lo, hi := b3.NodeGroups(node, b3.Groups(p.size))
	p.mu.Lock()
	stored, all := p.groups.FirstPresent(lo, hi) < hi, p.groups.FirstAbsent(lo, hi) == hi
	p.mu.Unlock()
	switch {
	case !stored:
		return 0, status.Errorf(status.NotFound, "read parent %d of %s: %w", node, p.root, errNotArrived)
	case !all:
		buf = buf[:b3.ParentSize]
	}
	return meta.PairSource{Pair: p.staging.Pair, Size: p.size}.ReadParents(node, buf)
}

// ReadFailed handles the error with which a read ended, and returns the error for the
// reader. If the error says that a group is corrupt, the group is dropped, counted as
// damage, and will be fetched again.
func (v *View) ReadFailed(err error) error {
	p := v.object
	var at *b3.GroupError
	if err == nil || status.Of(err) != status.Corrupt || !errors.As(err, &at) {
		return err
	}
	p.mu.Lock()
	if p.ended {
		p.mu.Unlock()
		// The object completed while it was being read.
		return p.t.deps.Damaged(p.root, err)
	}
	dropped := p.groups.Remove(at.Group)
	if dropped {
		n := min(b3.GroupSize, p.size-at.Group*b3.GroupSize)
		p.stored -= n
		p.t.bytes.Add(-n)
		p.markDirty(at.Group, 0)
	}
	p.mu.Unlock()
	if dropped {
		p.t.deps.CountDamage()
	}
	return status.Errorf(status.Corrupt,
		"a stored part of %s is damaged and is not served; fetch it again: %w", p.root, err)
}
