package manifest

import (
	"context"

	"allium/protocols/status"
)

// Diff calls fn for every entry that is not the same in old and new: their own
// first, with the path "", and, where both are directories, those below them,
// at any depth. prev is nil for what only new has, next for what only old has;
// both are set where kind, content, executable bit or target differ. A
// directory comes before what is in it, the names of one directory in bytewise
// order; two directories that differ are no difference themselves, only what is
// in them. Below a directory that one side alone has everything is reported.
//
// Only old.Kind, Root, Size, Executable and Target count, and so for new. The
// zero Entry on one side stands for nothing at all. Parts that have one address
// on both sides are not read, so that the cost is that of the difference, also
// within a directory of millions. It holds at most 32 MiB of nodes (by their
// encoding); its other bounds and its errors are those of [Walk]. The entries are valid
// during the call only.
func Diff(ctx context.Context, get Getter, old, next Entry, fn func(path string, prev, next *Entry) error) error {
	d := differ{walker: walker{get: get}, fn: fn}
	var a, b *Entry
	if old != (Entry{}) {
		a = &old
	}
	if next != (Entry{}) {
		b = &next
	}
	return d.pair(ctx, "", a, b, 0)
}

type differ struct {
	walker
	fn func(string, *Entry, *Entry) error
}

// same reports whether two entries of one name are the same but for what is
// below them.
func same(a, b *Entry) bool {
	if a.Kind != b.Kind {
		return false
	}
	return a.Kind == Directory || a.Root == b.Root && a.Size == b.Size && a.Executable == b.Executable && a.Target == b.Target
}

// pair reports how what is at path differs; nil stands for nothing. depth is
// the number of directories around it.
func (d *differ) pair(ctx context.Context, path string, a, b *Entry, depth int) error {
	if len(path) > maxPath {
		return refuse(path, "the path has %d bytes, the limit is %d", len(path), maxPath)
	}
	if (a == nil || b == nil || !same(a, b)) && (a != nil || b != nil) {
		if err := d.fn(path, a, b); err != nil {
			return err
		}
	}
	var dirs [2]*Entry
	for i, e := range []*Entry{a, b} {
		if e != nil && e.Kind == Directory {
			dirs[i] = e
		}
	}
	switch {
	case dirs[0] == nil && dirs[1] == nil:
		return nil
	case dirs[0] != nil && dirs[1] != nil && dirs[0].Root == dirs[1].Root:
		return nil
	case depth == maxNesting:
		return refuse(path, "more than %d directories inside each other", maxNesting)
	}
	return d.dirs(ctx, path, dirs[0], dirs[1], depth+1)
}

// dirs merges the entries of two directories, either of which may be nil.
func (d *differ) dirs(ctx context.Context, path string, a, b *Entry, depth int) error {
	x, y := newCursor(&d.walker, a), newCursor(&d.walker, b)
	defer x.close()
	defer y.close()
	for !x.done() || !y.done() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if x.sameNode(y) {
			x.next()
			y.next()
			continue
		}
		ready, err := align(ctx, x, y)
		if err != nil {
			return err
		}
		if !ready {
			continue
		}
		p, q := x.entry(), y.entry()
		switch {
		case p != nil && (q == nil || p.Name < q.Name):
			q = nil
			x.next()
		case p == nil || q.Name < p.Name:
			p = nil
			y.next()
		default:
			x.next()
			y.next()
		}
		var name string
		if p != nil {
			name = p.Name
		} else {
			name = q.Name
		}
		if path != "" {
			name = path + "/" + name
		}
		if err := d.pair(ctx, name, p, q, depth); err != nil {
			return err
		}
	}
	return nil
}

// align opens the nodes that hide which entry comes next. It reports whether
// both sides show one, or their end; otherwise their heads are to be compared
// again.
func align(ctx context.Context, x, y *cursor) (ready bool, err error) {
	switch {
	case x.hidden() && (!y.hidden() && (y.done() || x.first() <= y.first()) || y.hidden() && x.first() < y.first()):
		return false, x.open(ctx)
	case y.hidden() && (!x.hidden() && (x.done() || y.first() <= x.first()) || x.hidden() && y.first() < x.first()):
		return false, y.open(ctx)
	case !x.hidden() && !y.hidden():
		return true, nil
	case x.hidden() != y.hidden():
		return true, nil // the entry comes before all that is hidden
	}
	// Both hide what begins with the same name. The taller one is opened, so that
	// its parts can be compared with the other whole.
	if err := x.load(ctx); err != nil {
		return false, err
	}
	if err := y.load(ctx); err != nil {
		return false, err
	}
	p, q := x.top().node, y.top().node
	if p.Index || !q.Index {
		if err := x.open(ctx); err != nil {
			return false, err
		}
	}
	if q.Index || !p.Index {
		return false, y.open(ctx)
	}
	return false, nil
}

// cursor stands before an entry of a directory, or before a node that holds the
// entries to come and is not opened yet.
type cursor struct {
	w     *walker
	stack []*frame
}

// frame is a node on the way to the cursor.
type frame struct {
	span
	node *Node // nil: not read yet
	size int   // of node, while it is held
	open bool  // the cursor is inside it
	i    int   // the child or entry it stands before
}

func newCursor(w *walker, e *Entry) *cursor {
	c := &cursor{w: w}
	if e != nil {
		c.push(span{root: e.Root, size: e.Size})
	}
	return c
}

func (c *cursor) push(s span) { c.stack = append(c.stack, &frame{span: s}) }

func (c *cursor) top() *frame { return c.stack[len(c.stack)-1] }

func (c *cursor) done() bool { return len(c.stack) == 0 }

// hidden reports whether a node that is not opened is next.
func (c *cursor) hidden() bool { return !c.done() && !c.top().open }

// first is the name that what is next begins with; "" for a directory that was
// not read yet.
func (c *cursor) first() string {
	if f := c.top(); f.open {
		return f.node.Entries[f.i].Name
	}
	return c.top().first
}

// entry is what is next, nil when that is a node or the end.
func (c *cursor) entry() *Entry {
	if c.done() || c.hidden() {
		return nil
	}
	f := c.top()
	return &f.node.Entries[f.i]
}

// sameNode reports whether one node is next on both sides.
func (c *cursor) sameNode(o *cursor) bool {
	return c.hidden() && o.hidden() && c.top().root == o.top().root
}

// load reads the node that is next.
func (c *cursor) load(ctx context.Context) error {
	f := c.top()
	if f.node != nil {
		return nil
	}
	n, size, err := c.w.load(ctx, f.span)
	if err != nil {
		return err
	}
	f.node, f.size = n, size
	f.first = n.first() // its parent said so, or it has none
	if c.w.held += size; c.w.held > 2*maxHeld {
		return status.Errorf(status.BodyCap, "manifest: the directories on the way to %s take more than %d bytes", f.root, 2*maxHeld)
	}
	return nil
}

// open puts what is in the node that is next in its place.
func (c *cursor) open(ctx context.Context) error {
	if err := c.load(ctx); err != nil {
		return err
	}
	c.top().open = true
	c.settle()
	return nil
}

// settle leaves nodes that are through and steps to the child that is next.
func (c *cursor) settle() {
	for !c.done() && c.top().open {
		f := c.top()
		switch {
		case f.i < len(f.node.Children):
			c.push(f.node.span(f.span, f.i))
			return
		case f.i < len(f.node.Entries):
			return
		}
		c.pop()
		if !c.done() {
			c.top().i++
		}
	}
}

func (c *cursor) pop() {
	c.w.held -= c.top().size
	c.stack = c.stack[:len(c.stack)-1]
}

// next steps over what is next.
func (c *cursor) next() {
	if c.hidden() {
		c.pop()
	}
	if !c.done() {
		c.top().i++
		c.settle()
	}
}

// close gives up what the cursor holds.
func (c *cursor) close() {
	for !c.done() {
		c.pop()
	}
}
