package gc

import (
	"context"
	"errors"
	"strings"

	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
	"allium/store/meta"
)

const (
	// maxSeen bounds the directories that one walk remembers: 4 MiB of addresses and the map
	// around them. Further ones are read again when they are met again.
	maxSeen = 128 << 10
	// maxPending bounds the directories that one walk knows of and has yet to read.
	maxPending = 256 << 10
	// maxWalk bounds the directories that one walk reads.
	maxWalk = 16 << 20
)

// Step is one step down a tree of directories.
type Step struct {
	Root b3.Root
	Name string // in the directory above; empty for the top, and within a directory of several nodes
}

// Path joins the names of steps with "/".
func Path(steps []Step) string {
	var names []string
	for _, st := range steps {
		if st.Name != "" {
			names = append(names, st.Name)
		}
	}
	return strings.Join(names, "/")
}

// walker reads trees depth first, each node once, with one verified node in RAM at a time.
// A missing node names nothing. A damaged node may name anything, and is reported.
type walker struct {
	g       *Collector
	pause   func(context.Context) error // called before each node
	visit   func(b3.Root) (stop bool)   // called for the top and for everything that a node names
	damaged func(path []Step)           // called for a node that cannot be read; the walk goes on

	// absent is called for a missing node, which is then looked up once more. file is called
	// for each file that a node names. Both may be nil.
	absent func(path []Step)
	file   func(node, at Step)

	seen      map[b3.Root]struct{} // nodes that were read, at most maxSeen
	path      []level              // from the top to the current node
	pending   int                  // nodes of path that are unread
	nodesRead int
}

// level is a node on the path, whose children are being read.
type level struct {
	Step
	unread []Step // children that are still to be read
}

// walk reads the tree of top. stopped reports whether visit stopped it; steps is then the
// path to the object that stopped it.
func (w *walker) walk(ctx context.Context, top b3.Root) (steps []Step, stopped bool, err error) {
	if w.seen == nil {
		w.seen = map[b3.Root]struct{}{}
	}
	defer func() { w.path, w.pending = w.path[:0], 0 }()
	if w.visit(top) {
		return []Step{{Root: top}}, true, nil
	}
	last, stopped, err := w.readNode(ctx, Step{Root: top})
	for !stopped && err == nil && len(w.path) > 0 {
		l := &w.path[len(w.path)-1]
		if len(l.unread) == 0 {
			w.path = w.path[:len(w.path)-1]
			continue
		}
		next := l.unread[0]
		l.unread = l.unread[1:]
		w.pending--
		last, stopped, err = w.readNode(ctx, next)
	}
	if stopped {
		steps = append(w.currentPath(), last)
	}
	return steps, stopped, err
}

// currentPath returns the path to the current node.
func (w *walker) currentPath() []Step {
	steps := make([]Step, 0, len(w.path)+1)
	for _, l := range w.path {
		steps = append(steps, l.Step)
	}
	return steps
}

// readNode reads a node and visits what it names. If a visit stops the walk, it returns
// that step and true.
func (w *walker) readNode(ctx context.Context, at Step) (Step, bool, error) {
	if _, ok := w.seen[at.Root]; ok {
		return Step{}, false, nil
	}
	if err := w.pause(ctx); err != nil {
		return Step{}, false, err
	}
	if w.nodesRead++; w.nodesRead > maxWalk {
		return Step{}, false, status.Errorf(status.Conflict,
			"more than %d directories are below recursive pins; remove some of the pins", maxWalk)
	}
	n, err := w.g.deps.Node(ctx, at.Root)
	if n == nil && err == nil && w.absent != nil {
		n, err = w.readAgain(ctx, at)
	}
	if errors.Is(err, meta.ErrDamagedDirectory) {
		w.damaged(append(w.currentPath(), at))
		return Step{}, false, nil
	}
	if err != nil {
		return Step{}, false, err
	}
	if n == nil {
		// The node may still arrive. Forgetting the path to it makes the next walk that comes
		// this way look again.
		for _, l := range w.path {
			delete(w.seen, l.Root)
		}
		return Step{}, false, nil
	}
	if len(w.seen) < maxSeen {
		w.seen[at.Root] = struct{}{}
	}
	l := level{Step: at}
	for _, ref := range references(n) {
		if w.visit(ref.Root) {
			w.path = append(w.path, l)
			return ref.Step, true, nil
		}
		if !ref.manifest && w.file != nil {
			w.file(at, ref.Step)
		}
		if _, ok := w.seen[ref.Root]; ref.manifest && !ok {
			l.unread = append(l.unread, ref.Step)
		}
	}
	w.path = append(w.path, l)
	if w.pending += len(l.unread); w.pending > maxPending {
		return Step{}, false, status.Errorf(status.Conflict,
			"the tree of %s is too large: more than %d directories wait to be read; remove its pin",
			w.path[0].Root, maxPending)
	}
	return Step{}, false, nil
}

// readAgain calls absent for a missing node and reads the node once more. It returns nil
// for a file.
func (w *walker) readAgain(ctx context.Context, at Step) (*manifest.Node, error) {
	if err := w.g.deps.Admission.EnterContext(ctx); err != nil {
		return nil, err
	}
	_, here, err := w.g.deps.Backend.Get(at.Root)
	w.g.deps.Admission.Leave()
	if here || err != nil {
		return nil, err
	}
	w.absent(append(w.currentPath(), at))
	return w.g.deps.Node(ctx, at.Root)
}

// reference is an object that a node names.
type reference struct {
	Step
	manifest bool
}

// references returns the objects that a node names, in its order.
func references(n *manifest.Node) []reference {
	refs := make([]reference, 0, len(n.Children)+len(n.Entries))
	for _, c := range n.Children {
		refs = append(refs, reference{Step: Step{Root: c.Root}, manifest: true})
	}
	for i := range n.Entries {
		if e := &n.Entries[i]; e.Kind != manifest.Link {
			refs = append(refs, reference{
				Step: Step{Root: e.Root, Name: e.Name}, manifest: e.Kind == manifest.Directory,
			})
		}
	}
	return refs
}
