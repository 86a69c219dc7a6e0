package manifest

import (
	"context"
	"slices"

	"allium/protocols/b3"
)

// Diff calls fn for every entry that differs between two trees, at any depth. old
// and next are the roots of the trees, at path "".
//
// prev is nil for an entry that only the next tree has. next is nil for an entry
// that only the old tree has. Both are set if kind, content, executable bit or
// target differ. Two directories with different content are not reported, only
// the entries in them. If only one tree has a directory, Diff reports the
// directory and everything below it. A directory comes before its entries, and
// the entries of one directory are in byte order of their names. The entries are
// valid only during the call.
//
// Of the two roots, Diff ignores Name. The zero Entry means that the tree does not
// exist. Diff does not read nodes that both trees share, so its cost grows with
// the difference, not with the directories. It compares two directories once if
// their entries are the same. It holds at most 32 MiB of encoded nodes. Its other
// bounds and its errors are those of [Walk].
func Diff(ctx context.Context, get Getter, old, next Entry, fn func(path string, prev, next *Entry) error) error {
	d := differ{walker: walker{nodes: get.nodes()}, fn: fn, repeats: repeats{left: maxRepeated}}
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
	repeats
	fn    func(string, *Entry, *Entry) error
	found int  // calls of fn
	same  Seen // pairs of directories without a difference
}

// pairOf stands for two directories in a Seen; nil is none.
func pairOf(a, b *Entry) b3.Root {
	var roots [2]b3.Root
	for i, e := range []*Entry{a, b} {
		if e != nil {
			roots[i] = e.Root
		}
	}
	return b3.Sum(slices.Concat(roots[0][:], roots[1][:]))
}

// same reports whether two entries of one name are equal, apart from the content of
// directories.
func same(a, b *Entry) bool {
	if a.Kind != b.Kind {
		return false
	}
	return a.Kind == Directory ||
		a.Root == b.Root && a.Size == b.Size && a.Executable == b.Executable && a.Target == b.Target
}

// pair compares the entries at path; nil means that the tree has no such entry.
// depth is the number of directories around the entries.
func (d *differ) pair(ctx context.Context, path string, a, b *Entry, depth int) error {
	if len(path) > maxPath {
		return invalidEntry(path, "the path has %d bytes, the limit is %d", len(path), maxPath)
	}
	if (a == nil || b == nil || !same(a, b)) && (a != nil || b != nil) {
		d.found++
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
		return invalidEntry(path, "it has more than %d directories inside each other", maxNesting)
	}
	pair, found := pairOf(dirs[0], dirs[1]), d.found
	if d.same.Has(pair) {
		return nil
	}
	err := d.dirs(ctx, path, dirs[0], dirs[1], !d.seen.Add(pair), depth+1)
	if err == nil && d.found == found {
		d.same.Add(pair)
	}
	return err
}

// dirs merges the entries of two directories; one of them may be nil. repeated says that it has merged the same two
// before.
func (d *differ) dirs(ctx context.Context, path string, a, b *Entry, repeated bool, depth int) error {
	x, y := newCursor(&d.walker, a), newCursor(&d.walker, b)
	defer x.close()
	defer y.close()
	for !x.atEnd() || !y.atEnd() {
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
		if repeated {
			if err := d.count(name); err != nil {
				return err
			}
		}
		if err := d.pair(ctx, name, p, q, depth); err != nil {
			return err
		}
	}
	return nil
}

// align opens unopened nodes until both cursors are before the entries to compare.
// It returns false after it opened a node, and the caller then checks for a shared
// node again. It returns true if each cursor is before an entry, at the end, or
// before an unopened node whose names are all greater than the other's entry.
func align(ctx context.Context, x, y *cursor) (ready bool, err error) {
	switch {
	case x.atUnopenedNode() && (!y.atUnopenedNode() && (y.atEnd() || x.first() <= y.first()) ||
		y.atUnopenedNode() && x.first() < y.first()):
		return false, x.open(ctx)
	case y.atUnopenedNode() && (!x.atUnopenedNode() && (x.atEnd() || y.first() <= x.first()) ||
		x.atUnopenedNode() && y.first() < x.first()):
		return false, y.open(ctx)
	case !x.atUnopenedNode() && !y.atUnopenedNode():
		return true, nil
	case x.atUnopenedNode() != y.atUnopenedNode():
		return true, nil // the entry is less than every name in the unopened node
	}
	// Both unopened nodes begin with the same name. Open the one with more levels, to compare its children with the
	// whole other node.
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

// cursor is a position in a directory: before an entry, before an unopened node,
// or at the end.
type cursor struct {
	w     *walker
	stack []*frame
}

// frame is a node on the path to the cursor.
type frame struct {
	nodeRef
	node *Node // nil: not read yet
	size int   // size of node in bytes, once it is read
	open bool  // whether the cursor is inside the node
	i    int   // index of the next child or entry
}

func newCursor(w *walker, e *Entry) *cursor {
	c := &cursor{w: w}
	if e != nil {
		c.push(nodeRef{root: e.Root, size: e.Size})
	}
	return c
}

func (c *cursor) push(s nodeRef) { c.stack = append(c.stack, &frame{nodeRef: s}) }

func (c *cursor) top() *frame { return c.stack[len(c.stack)-1] }

func (c *cursor) atEnd() bool { return len(c.stack) == 0 }

// atUnopenedNode reports whether the cursor is before an unopened node.
func (c *cursor) atUnopenedNode() bool { return !c.atEnd() && !c.top().open }

// first returns the name of the next entry, or the first name in the next unopened
// node. It is "" for the root node of a directory before it is read.
func (c *cursor) first() string {
	if f := c.top(); f.open {
		return f.node.Entries[f.i].Name
	}
	return c.top().first
}

// entry returns the next entry, or nil before an unopened node and at the end.
func (c *cursor) entry() *Entry {
	if c.atEnd() || c.atUnopenedNode() {
		return nil
	}
	f := c.top()
	return &f.node.Entries[f.i]
}

// sameNode reports whether both cursors are before the same unopened node.
func (c *cursor) sameNode(o *cursor) bool {
	return c.atUnopenedNode() && o.atUnopenedNode() && c.top().root == o.top().root
}

// load reads the next unopened node.
func (c *cursor) load(ctx context.Context) error {
	f := c.top()
	if f.node != nil {
		return nil
	}
	n, size, err := c.w.load(ctx, f.nodeRef)
	if err != nil {
		return err
	}
	f.node, f.size = n, size
	f.first = n.first() // equal to the parent's value, if there is a parent
	if c.w.loaded += size; c.w.loaded > 2*maxLoaded {
		return tooLarge(f.root, 2*maxLoaded)
	}
	return nil
}

// open moves the cursor into the next unopened node.
func (c *cursor) open(ctx context.Context) error {
	if err := c.load(ctx); err != nil {
		return err
	}
	c.top().open = true
	c.descend()
	return nil
}

// descend leaves finished nodes and moves before the next entry or child.
func (c *cursor) descend() {
	for !c.atEnd() && c.top().open {
		f := c.top()
		switch {
		case f.i < len(f.node.Children):
			c.push(f.node.child(f.nodeRef, f.i))
			return
		case f.i < len(f.node.Entries):
			return
		}
		c.pop()
		if !c.atEnd() {
			c.top().i++
		}
	}
}

func (c *cursor) pop() {
	c.w.loaded -= c.top().size
	c.stack = c.stack[:len(c.stack)-1]
}

// next moves past the next entry or unopened node.
func (c *cursor) next() {
	if c.atUnopenedNode() {
		c.pop()
	}
	if !c.atEnd() {
		c.top().i++
		c.descend()
	}
}

// close releases the nodes that the cursor holds.
func (c *cursor) close() {
	for !c.atEnd() {
		c.pop()
	}
}
