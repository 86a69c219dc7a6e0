package blob

import (
	"maps"
	"slices"
	"sync"

	"allium/protocols/b3"
)

// outboardFile is the outboard of a download or a put. The parents of a download come one by one, from
// the root down, and the file is in post-order. So outboardFile keeps them until parents that follow
// each other can be written together. Reads see what is kept. flush comes before a sync.
type outboardFile struct {
	*stagedFile
	flushing chan struct{} // one token: its holder writes parents

	mu      sync.Mutex                    // lock: leaf
	parents map[int64][b3.ParentSize]byte // by their index; not yet in the file
}

// maxParents is the maximum number of parents that an outboardFile keeps, beside those that are being
// written at the same time.
const maxParents = 256

func newOutboardFile(f *stagedFile) *outboardFile {
	return &outboardFile{
		stagedFile: f, flushing: make(chan struct{}, 1), // bound: one token
		parents: map[int64][b3.ParentSize]byte{},
	}
}

// WriteAt implements io.WriterAt. It keeps p if p is one parent, and writes the parents that it has
// kept when they are too many. After an error of that, they are still kept.
func (o *outboardFile) WriteAt(p []byte, off int64) (int, error) {
	if len(p) != b3.ParentSize {
		return o.stagedFile.WriteAt(p, off)
	}
	o.mu.Lock()
	o.parents[off/b3.ParentSize] = [b3.ParentSize]byte(p)
	full := len(o.parents) >= maxParents
	o.mu.Unlock()
	if full {
		if err := o.flush(maxParents); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// ReadAt implements io.ReaderAt.
func (o *outboardFile) ReadAt(p []byte, off int64) (int, error) {
	kept := o.keptIn(off, int64(len(p))) // before the read: a parent leaves the map when the file has it
	n, err := o.stagedFile.ReadAt(p, off)
	for _, b := range kept {
		from := int(max(b.off-off, 0))
		if end := from + copy(p[from:], b.parent[max(off-b.off, 0):]); from <= n {
			n = max(n, end)
		}
	}
	if n == len(p) {
		err = nil
	}
	return n, err
}

// keptParent is a parent that is not in the file yet.
type keptParent struct {
	off    int64 // in the file
	parent [b3.ParentSize]byte
}

// keptIn returns the kept parents of n bytes from off on, in their order.
func (o *outboardFile) keptIn(off, n int64) (kept []keptParent) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.parents) == 0 {
		return nil
	}
	for node := off / b3.ParentSize; node*b3.ParentSize < off+n; node++ {
		if p, ok := o.parents[node]; ok {
			kept = append(kept, keptParent{node * b3.ParentSize, p})
		}
	}
	return kept
}

// flush writes the parents if at least so many are kept.
func (o *outboardFile) flush(atLeast int) error {
	o.flushing <- struct{}{} // held for a few writes
	defer func() { <-o.flushing }()
	o.mu.Lock()
	if len(o.parents) < atLeast {
		o.mu.Unlock()
		return nil
	}
	nodes := slices.Sorted(maps.Keys(o.parents))
	buf := make([]byte, 0, len(nodes)*b3.ParentSize)
	for _, node := range nodes {
		p := o.parents[node]
		buf = append(buf, p[:]...)
	}
	o.mu.Unlock()
	for from, to := 0, 1; from < len(nodes); from, to = to, to+1 {
		for to < len(nodes) && nodes[to] == nodes[to-1]+1 {
			to++
		}
		run := buf[from*b3.ParentSize : to*b3.ParentSize]
		if _, err := o.stagedFile.WriteAt(run, nodes[from]*b3.ParentSize); err != nil {
			return err
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, node := range nodes {
		delete(o.parents, node)
	}
	return nil
}
