package gc

import (
	"context"
	"errors"
	"slices"
	"strings"

	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
	"allium/store/meta"
)

const (
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
	trees   *trees
	pause   func(context.Context) error    // called before each node
	visit   func(manifest.Ref) (stop bool) // called for the top and for everything that a node names
	damaged func(path []Step)              // called for a node that cannot be read; the walk goes on

	// absent is called for a missing node, which is then looked up once more. file is called
	// for each file that a node names. Both may be nil.
	absent func(path []Step)
	file   func(node, at Step)

	seen      manifest.Seen // nodes that were read, with all below them
	lacking   manifest.Seen // missing nodes, and those on the way to them, until the next pass
	path      []level       // from the top to the current node
	pending   int           // nodes of path that are unread
	nodesRead int
}

// level is a node on the path, whose children are being read.
type level struct {
	Step
	unread []child // children that are still to be read
	next   int     // the place from which on they were dropped, to be found again; 0: none
}

// child is a directory that a node names, with its place among all that the node names.
type child struct {
	Step
	at int
}

// nextPass makes the walks from here on look again for nodes that were missing, and at what leads to them.
func (w *walker) nextPass() { w.lacking.Clear() }

// isRead reports whether a node need not be read.
func (w *walker) isRead(root b3.Root) bool { return w.seen.Has(root) || w.lacking.Has(root) }

// walk reads the tree of top. stopped reports whether visit stopped it; steps is then the
// path to the object that stopped it.
func (w *walker) walk(ctx context.Context, top b3.Root) (steps []Step, stopped bool, err error) {
	defer func() { w.path, w.pending = w.path[:0], 0 }()
	if w.visit(manifest.Ref{Root: top}) {
		return []Step{{Root: top}}, true, nil
	}
	last, stopped, err := w.readNode(ctx, Step{Root: top})
	for !stopped && err == nil && len(w.path) > 0 {
		l := &w.path[len(w.path)-1]
		switch {
		case len(l.unread) > 0:
			next := l.unread[0]
			l.unread = l.unread[1:]
			w.pending--
			last, stopped, err = w.readNode(ctx, next.Step)
		case l.next > 0:
			err = w.readRest(ctx)
		default:
			w.path = w.path[:len(w.path)-1]
		}
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
	if w.isRead(at.Root) {
		return Step{}, false, nil
	}
	n, err := w.open(ctx, at)
	if n == nil || err != nil {
		return Step{}, false, err
	}
	w.seen.Add(at.Root)
	l := level{Step: at}
	refs := references(n)
	for _, ref := range refs {
		if w.visit(ref.Ref) {
			w.path = append(w.path, l)
			return ref.step(), true, nil
		}
		if !ref.Manifest && w.file != nil {
			w.file(at, ref.step())
		}
	}
	w.push(l, refs, 0)
	return Step{}, false, nil
}

// readRest finds the children again that push dropped of the current node.
func (w *walker) readRest(ctx context.Context) error {
	l := w.path[len(w.path)-1]
	w.path = w.path[:len(w.path)-1]
	n, err := w.open(ctx, l.Step)
	if n == nil || err != nil {
		return err
	}
	w.push(level{Step: l.Step}, references(n), l.next)
	return nil
}

// push adds a node to the path, whose children from the given place on are to be read. Above maxPending
// children it drops those of the nodes at the top, which are read last.
func (w *walker) push(l level, refs []reference, from int) {
	for i := from; i < len(refs); i++ {
		if ref := refs[i]; ref.Manifest && !w.isRead(ref.Root) {
			l.unread = append(l.unread, child{ref.step(), i})
		}
	}
	w.path = append(w.path, l)
	if w.pending += len(l.unread); w.pending <= maxPending {
		return
	}
	for i := range w.path[:len(w.path)-1] {
		if l := &w.path[i]; len(l.unread) > 0 {
			w.pending -= len(l.unread)
			l.unread, l.next = nil, l.unread[0].at
		}
	}
}

// open reads a node. It returns nil for a file, and for a node that is missing or damaged, which it reports.
func (w *walker) open(ctx context.Context, at Step) (*manifest.Node, error) {
	if err := w.pause(ctx); err != nil {
		return nil, err
	}
	if w.nodesRead++; w.nodesRead > maxWalk {
		return nil, status.Errorf(status.Conflict,
			"more than %d directories are below recursive pins; remove some of the pins", maxWalk)
	}
	n, err := w.trees.deps.Node(ctx, at.Root)
	if n == nil && err == nil && w.absent != nil {
		n, err = w.readAgain(ctx, at)
	}
	if errors.Is(err, meta.ErrDamagedDirectory) {
		w.damaged(append(w.currentPath(), at))
		return nil, nil
	}
	if n == nil && err == nil {
		// The node may still arrive. The next pass then reads what is on the way to it again.
		w.lacking.Add(at.Root)
		for _, l := range slices.Backward(w.path) {
			if w.lacking.Has(l.Root) && !w.seen.Has(l.Root) {
				break // it was noted with all above it
			}
			w.seen.Forget(l.Root)
			w.lacking.Add(l.Root)
		}
	}
	return n, err
}

// readAgain calls absent for a missing node and reads the node once more. It returns nil
// for a file.
func (w *walker) readAgain(ctx context.Context, at Step) (*manifest.Node, error) {
	if err := w.trees.deps.Admission.EnterContext(ctx); err != nil {
		return nil, err
	}
	_, here, err := w.trees.deps.Backend.Get(at.Root)
	w.trees.deps.Admission.Leave()
	if here || err != nil {
		return nil, err
	}
	w.absent(append(w.currentPath(), at))
	return w.trees.deps.Node(ctx, at.Root)
}

// reference is an object that a node names.
type reference struct {
	manifest.Ref
	name string // in the node; empty for a part of a directory
}

func (r reference) step() Step { return Step{Root: r.Root, Name: r.name} }

// references returns the objects that a node names, in its order.
func references(n *manifest.Node) []reference {
	refs := make([]reference, 0, len(n.Children)+len(n.Entries))
	for _, c := range n.Children {
		refs = append(refs, reference{Ref: manifest.Ref{Root: c.Root, Size: c.Size, Manifest: true}})
	}
	for i := range n.Entries {
		if e := &n.Entries[i]; e.Kind != manifest.Link {
			ref := manifest.Ref{Root: e.Root, Size: e.Size, Manifest: e.Kind == manifest.Directory}
			refs = append(refs, reference{ref, e.Name})
		}
	}
	return refs
}
