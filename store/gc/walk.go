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
	// maxSeen is how many directories one walk remembers exactly, 4 MiB and
	// the map around them. What is met again beyond is read again.
	maxSeen = 128 << 10
	// maxPending is how many directories one walk knows of and has yet to read.
	maxPending = 256 << 10
	// maxWalk is how many directories one walk reads.
	maxWalk = 16 << 20
)

// Step is one step down a tree.
type Step struct {
	Root b3.Root
	Name string // in the directory above; empty for the top and inside an index
}

// Path joins the names of steps.
func Path(steps []Step) string {
	var names []string
	for _, st := range steps {
		if st.Name != "" {
			names = append(names, st.Name)
		}
	}
	return strings.Join(names, "/")
}

// walker follows trees down, depth first, one verified node in RAM at a time,
// each node once. A node that is not here names nothing; one that is here and
// damaged may name anything.
type walker struct {
	g       *Collector
	pause   func(context.Context) error // between nodes
	visit   func(b3.Root) (stop bool)   // what a node names, and the tops
	damaged func(path []Step)           // a node that cannot be read; the walk goes on

	// May be nil: absent is told of a node that is not here, which is looked for
	// once more then, and file of each file that a node names.
	absent func(path []Step)
	file   func(node, at Step)

	seen    map[b3.Root]struct{}
	path    []level
	pending int
	read    int
}

// level is a node that is being followed.
type level struct {
	Step
	left []Step // nodes below it that are still to be read
}

// walk follows the tree of top and reports whether a visit stopped it; then
// steps is the way to what stopped it.
func (w *walker) walk(ctx context.Context, top b3.Root) (steps []Step, stopped bool, err error) {
	if w.seen == nil {
		w.seen = map[b3.Root]struct{}{}
	}
	defer func() { w.path, w.pending = w.path[:0], 0 }()
	if w.visit(top) {
		return []Step{{Root: top}}, true, nil
	}
	last, stopped, err := w.enter(ctx, Step{Root: top})
	for !stopped && err == nil && len(w.path) > 0 {
		l := &w.path[len(w.path)-1]
		if len(l.left) == 0 {
			w.path = w.path[:len(w.path)-1]
			continue
		}
		next := l.left[0]
		l.left = l.left[1:]
		w.pending--
		last, stopped, err = w.enter(ctx, next)
	}
	if stopped {
		steps = append(w.way(), last)
	}
	return steps, stopped, err
}

// way is the path to the node that is being followed.
func (w *walker) way() []Step {
	steps := make([]Step, 0, len(w.path)+1)
	for _, l := range w.path {
		steps = append(steps, l.Step)
	}
	return steps
}

// enter reads a node and visits what it names. When a visit stops it, that is
// what it returns.
func (w *walker) enter(ctx context.Context, at Step) (Step, bool, error) {
	if _, ok := w.seen[at.Root]; ok {
		return Step{}, false, nil
	}
	if err := w.pause(ctx); err != nil {
		return Step{}, false, err
	}
	if w.read++; w.read > maxWalk {
		return Step{}, false, status.Errorf(status.Conflict, "store: more than %d directories are below recursive pins; remove some of the pins", maxWalk)
	}
	n, err := w.g.deps.Node(ctx, at.Root)
	if n == nil && err == nil && w.absent != nil {
		n, err = w.again(ctx, at)
	}
	if errors.Is(err, meta.ErrDamagedDirectory) {
		w.damaged(append(w.way(), at))
		return Step{}, false, nil
	}
	if err != nil {
		return Step{}, false, err
	}
	if n == nil {
		// It may arrive, deferred or fetched: whoever comes this way again looks
		// again.
		for _, l := range w.path {
			delete(w.seen, l.Root)
		}
		return Step{}, false, nil
	}
	if len(w.seen) < maxSeen {
		w.seen[at.Root] = struct{}{}
	}
	l := level{Step: at}
	for _, ref := range named(n) {
		if w.visit(ref.Root) {
			w.path = append(w.path, l)
			return ref.Step, true, nil
		}
		if !ref.manifest && w.file != nil {
			w.file(at, ref.Step)
		}
		if _, ok := w.seen[ref.Root]; ref.manifest && !ok {
			l.left = append(l.left, ref.Step)
		}
	}
	w.path = append(w.path, l)
	if w.pending += len(l.left); w.pending > maxPending {
		return Step{}, false, status.Errorf(status.Conflict, "store: %s is too deep and wide a tree: more than %d directories wait to be read; remove its pin", w.path[0].Root, maxPending)
	}
	return Step{}, false, nil
}

// again tells of a node that is not here and looks for it once more. A file is
// none.
func (w *walker) again(ctx context.Context, at Step) (*manifest.Node, error) {
	if err := w.g.deps.Admission.EnterContext(ctx); err != nil {
		return nil, err
	}
	_, here, err := w.g.deps.Backend.Get(at.Root)
	w.g.deps.Admission.Leave()
	if here || err != nil {
		return nil, err
	}
	w.absent(append(w.way(), at))
	return w.g.deps.Node(ctx, at.Root)
}

// reference is what a node names.
type reference struct {
	Step
	manifest bool
}

func named(n *manifest.Node) []reference {
	refs := make([]reference, 0, len(n.Children)+len(n.Entries))
	for _, c := range n.Children {
		refs = append(refs, reference{Step: Step{Root: c.Root}, manifest: true})
	}
	for i := range n.Entries {
		if e := &n.Entries[i]; e.Kind != manifest.Link {
			refs = append(refs, reference{Step: Step{Root: e.Root, Name: e.Name}, manifest: e.Kind == manifest.Directory})
		}
	}
	return refs
}
