package manifest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sort"
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
	return func(yield func(Entry, error) bool) {
		w := walker{get: get}
		err := w.each(ctx, nodeRef{root: root}, func(e *Entry) error {
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
}

// child returns a reference to the i-th child of the index n, which is at s.
func (n *Node) child(s nodeRef, i int) nodeRef {
	c := n.Children[i]
	s = nodeRef{root: c.Root, size: c.Size, first: c.First, before: s.before, depth: s.depth + 1}
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
	get    Getter
	loaded int // bytes of encoded nodes
}

// load reads the node at s and checks it against the properties in s. It returns
// the node and its size in bytes.
func (w *walker) load(ctx context.Context, s nodeRef) (*Node, int, error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, fmt.Errorf("read %s: %w", s.root, err)
	}
	p, err := w.get(ctx, s.root)
	if err != nil {
		return nil, 0, fmt.Errorf("read %s: %w", s.root, err)
	}
	n, err := Decode(p)
	if err != nil {
		return nil, 0, fmt.Errorf("read %s: %w", s.root, err)
	}
	switch {
	case s.size != 0 && int64(len(p)) != s.size:
		err = malformed("%s has %d bytes, its parent says %d", s.root, len(p), s.size)
	case s.first != "" && n.first() != s.first:
		err = malformed("%s begins with %q, its index says %q", s.root, n.first(), s.first)
	case s.before != "" && n.last() >= s.before:
		err = malformed("%s contains %q, which belongs to the next node of its index", s.root, n.last())
	case n.Index && s.depth == MaxDepth:
		err = malformed("%s is an index below %d other indexes", s.root, MaxDepth)
	}
	if err != nil {
		return nil, 0, err
	}
	return n, len(p), nil
}

// tooLarge returns the error of a walk that holds more than limit bytes of nodes.
func tooLarge(root b3.Root, limit int) error {
	return status.Errorf(status.BodyCap, "the directories on the way to %s have more than %d bytes", root, limit)
}

// each calls fn for every entry of the directory or node at s.
func (w *walker) each(ctx context.Context, s nodeRef, fn func(*Entry) error) error {
	n, size, err := w.load(ctx, s)
	if err != nil {
		return err
	}
	if w.loaded += size; w.loaded > maxLoaded {
		return tooLarge(s.root, maxLoaded)
	}
	defer func() { w.loaded -= size }()
	for i := range n.Children {
		if err := w.each(ctx, n.child(s, i), fn); err != nil {
			return err
		}
	}
	for i := range n.Entries {
		if err := fn(&n.Entries[i]); err != nil {
			return err
		}
	}
	return nil
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
	w := walker{get: get}
	at := Entry{Kind: Directory, Root: root}
	path = strings.Trim(norm.NFC.String(path), "/")
	if path == "" {
		_, size, err := w.load(ctx, nodeRef{root: root})
		at.Size = int64(size)
		return at, err
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
		n, _, err := w.load(ctx, s)
		if err != nil {
			return nil, err
		}
		if !n.Index {
			i := sort.Search(len(n.Entries), func(i int) bool { return n.Entries[i].Name >= name })
			if i == len(n.Entries) || n.Entries[i].Name != name {
				return nil, nil
			}
			return &n.Entries[i], nil
		}
		i := sort.Search(len(n.Children), func(i int) bool { return n.Children[i].First > name })
		if i == 0 {
			return nil, nil
		}
		s = n.child(s, i-1)
	}
}
