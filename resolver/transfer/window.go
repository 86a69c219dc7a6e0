package transfer

import (
	"context"
	"sync"

	"allium/protocols/b3"
	"allium/protocols/status"
)

const (
	// maxStreams bounds the readers through RAM.
	maxStreams = 32
	// streamAhead is the maximum number of groups that such a reader has requested or received but not read: 1 MiB.
	streamAhead = 16
)

// window is the Ingest of an object for which the store has no space. It keeps in RAM at most
// streamAhead+1 groups from the group on that its only reader reads, with the parents above them.
// [window.Wait] moves it forward. Groups before it count as stored, others are dropped. Its methods
// are safe for concurrent use.
type window struct {
	root b3.Root
	size int64

	mu      sync.Mutex // lock: leaf
	pos     int64      // the first group that is kept
	groups  map[int64][]byte
	parents map[int64][b3.ParentSize]byte
	changed chan struct{} // closed when a group arrives or the window ends
	ended   error
}

var (
	_ Ingest    = (*window)(nil)
	_ b3.Object = (*window)(nil)
	_ b3.Source = (*window)(nil)
)

// newWindow returns a window of an object of the given size that begins at group pos.
func newWindow(root b3.Root, size, pos int64) *window {
	return &window{
		root: root, size: size, pos: pos, changed: make(chan struct{}),
		groups: map[int64][]byte{}, parents: map[int64][b3.ParentSize]byte{},
	}
}

// Write implements [Ingest]. It drops what the reader does not need next.
func (w *window) Write(p b3.Proved) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended != nil {
		return w.ended
	}
	if p.IsParent() {
		if w.needs(b3.NodeGroups(p.Node(), b3.Groups(w.size))) {
			w.parents[p.Node()] = [b3.ParentSize]byte(p.Data())
		}
		return nil
	}
	g := p.Group()
	if !w.needs(g, g+1) || w.groups[g] != nil {
		return nil
	}
	w.groups[g] = append(make([]byte, 0, len(p.Data())), p.Data()...)
	w.notify()
	return nil
}

// needs reports whether the window has one of the groups [lo, hi). The caller holds mu.
func (w *window) needs(lo, hi int64) bool { return hi > w.pos && lo <= w.pos+streamAhead }

// notify wakes the reader. The caller holds mu.
func (w *window) notify() {
	close(w.changed)
	w.changed = make(chan struct{})
}

// has reports whether group g was read or is here. The caller holds mu.
func (w *window) has(g int64) bool { return g < w.pos || w.groups[g] != nil }

// Has implements [Ingest].
func (w *window) Has(g int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.has(g)
}

// Missing implements [Ingest].
func (w *window) Missing(from, to int64) (lo, hi int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	to = min(to, b3.Groups(w.size))
	for lo = max(from, min(to, w.pos)); lo < to && w.has(lo); lo++ {
	}
	for hi = lo; hi < to && !w.has(hi); hi++ {
		if hi > w.pos+streamAhead { // nothing is here from there on
			return lo, to
		}
	}
	return lo, hi
}

// Held implements [Ingest]. The groups before the window count.
func (w *window) Held() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return min(w.size, (w.pos+int64(len(w.groups)))*b3.GroupSize)
}

// Wait implements [Ingest] for the only reader, which reads in order. It drops what is before group g.
func (w *window) Wait(ctx context.Context, g int64) error {
	for {
		here, changed, err := w.move(g)
		if here || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// move moves the window forward to group g. It reports whether g is here, or else returns a channel
// that is closed when that may have changed.
func (w *window) move(g int64) (here bool, changed <-chan struct{}, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if g > w.pos {
		w.pos = g
		for old := range w.groups {
			if old < g {
				delete(w.groups, old)
			}
		}
		for node := range w.parents {
			if _, hi := b3.NodeGroups(node, b3.Groups(w.size)); hi <= g {
				delete(w.parents, node)
			}
		}
	}
	if w.groups[g] != nil {
		return true, nil, nil
	}
	return false, w.changed, w.ended
}

// Open implements [Ingest].
func (w *window) Open() (b3.Object, error) { return w, nil }

// Commit implements [Ingest]. The reader reads what is left.
func (w *window) Commit(context.Context) error { return nil }

// Suspend implements [Ingest]. It drops everything.
func (w *window) Suspend() {
	w.Abort(status.Errorf(status.Canceled, "the fetch of %s was suspended", w.root))
}

// Abort implements [Ingest].
func (w *window) Abort(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = err
	clear(w.groups)
	clear(w.parents)
	w.notify()
}

// Size implements [b3.Object].
func (w *window) Size() int64 { return w.size }

// Reader implements [b3.Object].
func (w *window) Reader() *b3.Reader { return b3.NewReader(w.root, w.size, w) }

// Failed implements [b3.Object].
func (w *window) Failed(err error) error { return err }

// Close implements [b3.Object].
func (w *window) Close() error { return nil }

// ReadGroup implements [b3.Source].
func (w *window) ReadGroup(g int64, p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.groups[g] == nil {
		return 0, status.Errorf(status.Internal, "group %d of %s is not in RAM", g, w.root)
	}
	return copy(p, w.groups[g]), nil
}

// ReadParents implements [b3.Source].
func (w *window) ReadParents(node int64, p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	found, ok := w.parents[node]
	if !ok {
		return 0, status.Errorf(status.Internal, "parent %d of %s is not in RAM", node, w.root)
	}
	copy(p, found[:])
	return 1, nil
}
