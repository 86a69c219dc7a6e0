package manifest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"golang.org/x/text/unicode/norm"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// Getter returns the bytes of the object root, verified against root. It should
// reject an object of more than MaxNode bytes before it reads the object.
type Getter func(ctx context.Context, root b3.Root) ([]byte, error)

// Entries returns an iterator over the entries of the directory root, in byte
// order of their names. It holds one node per level.
//
// The iteration ends for any input. There are at most MaxDepth index levels. Each
// node must have the size and the range of names that its parent gives, so no
// name occurs twice or out of order. If there is an error, it is in the last pair:
// an error of get, or bad_request for an object that is no directory.
func Entries(ctx context.Context, get Getter, root b3.Root) iter.Seq2[Entry, error] {
	return entries(ctx, walker{nodes: get.nodes()}, nodeRef{root: root})
}

func entries(ctx context.Context, w walker, top nodeRef) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		err := w.each(ctx, top, func(e *Entry) error {
			if !yield(*e, nil) {
				return errStop
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStop) {
			yield(Entry{}, err)
		}
	}
}

var errStop = errors.New("the loop over the entries ended")

// nodeRef is a node to read, with the properties that its parent gives.
type nodeRef struct {
	root   b3.Root
	size   int64  // bytes; 0: unknown
	first  string // name of the first entry; "" for the root node of a directory
	before string // every name is less than this; "" for no bound
	depth  int    // index nodes above the node in the directory

	checked bool // the node was read and checked before
}

// below returns a reference to the last child of the index at s. One before it has fewer names.
func (s nodeRef) below(c Child) nodeRef {
	return nodeRef{root: c.Root, size: c.Size, first: c.First, before: s.before, depth: s.depth + 1}
}

// child returns a reference to the i-th child of the index n, which is at s.
func (n *Node) child(s nodeRef, i int) nodeRef {
	s = s.below(n.Children[i])
	if i+1 < len(n.Children) {
		s.before = n.Children[i+1].First
	}
	return s
}

// maxLoaded is the most bytes of encoded nodes that one walk of a tree holds at a
// time. Only huge directories inside huge directories come near it.
const maxLoaded = 16 << 20

// walker reads nodes and counts the bytes of the nodes that it holds.
type walker struct {
	nodes   Nodes
	most    int  // bytes of encoded nodes that it holds; 0: maxLoaded
	release bool // an index is not held while its children are read
	loaded  int  // bytes of encoded nodes
}

// open reads the node at s to its end, and checks it and its properties, unless that was
// done before. see gets each item; it may be nil. The caller calls begin on the scanner.
func (w *walker) open(ctx context.Context, s nodeRef, see func(index bool, it *item) error) (*scanner, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("read %s: %w", s.root, err)
	}
	sc := &scanner{read: func(at int64) ([]byte, int64, error) { return w.nodes.Parts(ctx, s.root, at) }}
	if s.checked {
		return sc, nil
	}
	first, err := sc.check(see)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", s.root, err)
	}
	return sc, s.check(sc.size, sc.index(), first, string(sc.last))
}

// check decodes the node to its end and checks each item. It returns the name of the first.
func (s *scanner) check(see func(index bool, it *item) error) (first string, err error) {
	if err := s.begin(); err != nil {
		return "", err
	}
	var it item
	for {
		ok, err := s.next(&it)
		if err != nil || !ok {
			return first, err
		}
		if s.done == 1 {
			first = string(it.name)
		}
		if err := it.check(s.index()); err != nil {
			return "", err
		}
		if see != nil {
			if err := see(s.index(), &it); err != nil {
				return "", err
			}
		}
	}
}

// check checks the properties of a node that was read. first and last are its names.
func (s nodeRef) check(size int64, index bool, first, last string) error {
	switch {
	case s.size != 0 && size != s.size:
		return malformed("%s has %d bytes, its parent says %d", s.root, size, s.size)
	case s.first != "" && first != s.first:
		return malformed("%s begins with %q, its index says %q", s.root, first, s.first)
	case s.before != "" && last >= s.before:
		return malformed("%s contains %q, which belongs to the next node of its index", s.root, last)
	case index && s.depth == MaxDepth:
		return malformed("%s is an index below %d other indexes", s.root, MaxDepth)
	}
	return nil
}

// load reads the whole node at s. It returns the node and its size in bytes. The parts
// of w must be whole objects.
func (w *walker) load(ctx context.Context, s nodeRef) (*Node, int, error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, fmt.Errorf("read %s: %w", s.root, err)
	}
	p, _, err := w.nodes.Parts(ctx, s.root, 0)
	if err != nil {
		return nil, 0, fmt.Errorf("read %s: %w", s.root, err)
	}
	n, err := Decode(p)
	if err != nil {
		return nil, 0, fmt.Errorf("read %s: %w", s.root, err)
	}
	return n, len(p), s.check(int64(len(p)), n.Index, n.first(), n.last())
}

// tooLarge returns the error of a walk that holds more than limit bytes of nodes.
func tooLarge(root b3.Root, limit int) error {
	return status.Errorf(status.BodyCap, "the directories on the way to %s have more than %d bytes", root, limit)
}

// each calls fn for every entry of the directory or node at s. The entry is valid until
// fn returns.
func (w *walker) each(ctx context.Context, s nodeRef, fn func(*Entry) error) error {
	sc, err := w.open(ctx, s, nil)
	if err == nil {
		err = sc.begin()
	}
	if err != nil {
		return err
	}
	if sc.index() {
		return w.eachBelow(ctx, s, sc, fn)
	}
	held := sc.held()
	if w.loaded += held; w.loaded > w.limit() {
		return tooLarge(s.root, w.limit())
	}
	defer func() { w.loaded -= held }()
	var it item
	var e Entry
	for {
		ok, err := sc.next(&it)
		if err != nil || !ok {
			return err
		}
		if e, err = it.entry(); err == nil {
			err = fn(&e)
		}
		if err != nil {
			return err
		}
	}
}

// eachBelow is each for the children of the index s.
func (w *walker) eachBelow(ctx context.Context, s nodeRef, sc *scanner, fn func(*Entry) error) error {
	held := sc.held()
	if w.release {
		held = 0
	}
	if w.loaded += held; w.loaded > w.limit() {
		return tooLarge(s.root, w.limit())
	}
	defer func() { w.loaded -= held }()
	c, ok, err := sc.nextChild()
	for ok && err == nil {
		below := s.below(c)
		if c, ok, err = sc.nextChild(); err != nil {
			return err
		}
		if ok {
			below.before = c.First
		}
		if w.release {
			sc.release()
		}
		err = w.each(ctx, below, fn)
	}
	return err
}

// nextChild decodes the next child of an index. It returns false after the last one.
func (s *scanner) nextChild() (c Child, ok bool, err error) {
	var it item
	if ok, err = s.next(&it); err != nil || !ok {
		return c, false, err
	}
	c, err = it.child()
	return c, err == nil, err
}

// Dir is a directory whose root node was read and checked.
type Dir struct {
	Root   b3.Root
	Size   int64 // of the root node in bytes
	Listed int64 // bytes of the nodes with the entries; too few if they are not right below the root node

	nodes Nodes
	name  string // that Named looks for
	found step   // what the root node says about name
}

// Open reads and checks the root node of the directory root. name is that of the entry
// that [Dir.Named] returns.
func (n Nodes) Open(ctx context.Context, root b3.Root, name string) (*Dir, error) {
	w, d, s := walker{nodes: n}, &Dir{Root: root, nodes: n, name: name}, nodeRef{root: root}
	t, err := w.table(ctx, root)
	if err != nil {
		return nil, err
	}
	if t != nil {
		d.Size, d.Listed = int64(len(t.p)), t.listed
		d.found, err = t.step(s, name)
		return d, err
	}
	sc, err := w.open(ctx, s, func(index bool, it *item) error {
		d.Listed += it.size
		return d.found.see(name, index, it)
	})
	if err != nil {
		return nil, err
	}
	if d.Size = sc.size; !sc.index() {
		d.Listed = sc.size
	}
	return d, nil
}

// Entries is [Entries] with a part of one leaf in memory, and none of an index while
// its children are read. It reads each node twice, but the root node.
func (d *Dir) Entries(ctx context.Context) iter.Seq2[Entry, error] {
	return entries(ctx, walker{nodes: d.nodes, release: true}, nodeRef{root: d.Root, checked: true})
}

// Named returns the entry with the name that Open was given, or nil.
func (d *Dir) Named(ctx context.Context) (*Entry, error) {
	if d.found.below == nil {
		return d.found.entry, nil
	}
	w := walker{nodes: d.nodes}
	return w.find(ctx, *d.found.below, d.name)
}

// Lookup returns the entry at a slash-separated path below the directory root. It
// ignores slashes at either end and converts the path to Unicode normal form C.
// The empty path is the directory itself, an entry without a name. Lookup reads
// one node per level and does not follow links.
//
// The error is an [*EntryError] for a path that does not exist (not_found) or
// cannot exist (bad_request). Other errors are those of get, and bad_request for
// an object that is no directory.
func Lookup(ctx context.Context, get Getter, root b3.Root, path string) (Entry, error) {
	return get.nodes().Lookup(ctx, root, path)
}

// Lookup is [Lookup] with a part of one node in memory beside the tables.
func (n Nodes) Lookup(ctx context.Context, root b3.Root, path string) (Entry, error) {
	w := walker{nodes: n}
	at := Entry{Kind: Directory, Root: root}
	path = strings.Trim(norm.NFC.String(path), "/")
	if path == "" {
		sc, err := w.open(ctx, nodeRef{root: root}, nil)
		if err != nil {
			return at, err
		}
		at.Size = sc.size
		return at, nil
	}
	for end := 0; end < len(path); end++ {
		start := end
		if i := strings.IndexByte(path[start:], '/'); i >= 0 {
			end += i
		} else {
			end = len(path)
		}
		here := path[:end]
		if at.Kind != Directory {
			return Entry{}, &EntryError{
				Entry: here, Reason: fmt.Sprintf("not found: %q is a %s", at.Name, at.Kind), Outcome: status.NotFound,
			}
		}
		if reason := NameProblem(path[start:end]); reason != "" {
			return Entry{}, invalidEntry(here, "%s", reason)
		}
		e, err := w.find(ctx, nodeRef{root: at.Root, size: at.Size}, path[start:end])
		if err != nil {
			return Entry{}, err
		}
		if e == nil {
			return Entry{}, &EntryError{Entry: here, Reason: "not found", Outcome: status.NotFound}
		}
		at = *e
	}
	return at, nil
}

// find returns the entry name of the directory at s, or nil.
func (w *walker) find(ctx context.Context, s nodeRef, name string) (*Entry, error) {
	for {
		st, err := w.step(ctx, s, name)
		if err != nil || st.below == nil {
			return st.entry, err
		}
		s = *st.below
	}
}

// step returns what the node at s says about name.
func (w *walker) step(ctx context.Context, s nodeRef, name string) (step, error) {
	t, err := w.table(ctx, s.root)
	if err != nil {
		return step{}, err
	}
	if t != nil {
		return t.step(s, name)
	}
	st := step{at: s}
	_, err = w.open(ctx, s, func(index bool, it *item) error { return st.see(name, index, it) })
	return st, err
}

// table returns the table of the node root if there is one.
func (w *walker) table(ctx context.Context, root b3.Root) (*Table, error) {
	if w.nodes.Table == nil {
		return nil, nil
	}
	t, err := w.nodes.Table(ctx, root)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", root, err)
	}
	return t, nil
}

// step is the answer of a node for a name: its entry, or the node below that may have it.
type step struct {
	at     nodeRef // the node
	entry  *Entry
	below  *nodeRef
	passed bool // an item behind the name was seen
}

// see looks at the next item of the node.
func (st *step) see(name string, index bool, it *item) error {
	switch {
	case !index && string(it.name) == name:
		e, err := it.entry()
		st.entry = &e
		return err
	case index && string(it.name) <= name:
		below := st.at.below(Child{First: string(it.name), Root: b3.Root(it.digest), Size: it.size})
		st.below = &below
	case index && st.below != nil && !st.passed:
		st.passed, st.below.before = true, string(it.name)
	}
	return nil
}
