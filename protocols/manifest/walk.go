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

// Getter returns the bytes of the object root, verified against it. It should
// refuse an object of more than MaxNode bytes before it reads it.
type Getter func(ctx context.Context, root b3.Root) ([]byte, error)

// Entries streams the entries of the directory root in bytewise order of their
// names. It holds one node per level. Whatever the nodes say, it ends: index
// levels are at most MaxDepth, each node lies within the names and has the
// size that its parent gives, so no name comes twice and none out of order.
// The last pair carries the error, if any: get's, or bad_request for a
// directory that is not one.
func Entries(ctx context.Context, get Getter, root b3.Root) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		w := walker{get: get}
		err := w.each(ctx, span{root: root}, func(e *Entry) error {
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

var errStop = errors.New("manifest: the loop over the entries ended")

// span is a node to read and what its parent says of it.
type span struct {
	root   b3.Root
	size   int64  // 0: unknown
	first  string // name of the first entry; "" for the root of a directory
	before string // all names are less; "" for no bound
	depth  int    // index nodes above it in the directory
}

// span is the i-th child of an index at s.
func (n *Node) span(s span, i int) span {
	c := n.Children[i]
	s = span{root: c.Root, size: c.Size, first: c.First, before: s.before, depth: s.depth + 1}
	if i+1 < len(n.Children) {
		s.before = n.Children[i+1].First
	}
	return s
}

// maxHeld bounds the nodes that one walk of a tree holds at a time, in bytes
// of their encoding. Only directories nested in huge directories come near it.
const maxHeld = 16 << 20

// walker reads nodes and keeps count of what it holds.
type walker struct {
	get  Getter
	held int
}

// load returns a node that is what s says, and its size in bytes.
func (w *walker) load(ctx context.Context, s span) (*Node, int, error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, fmt.Errorf("manifest: read %s: %w", s.root, err)
	}
	p, err := w.get(ctx, s.root)
	if err != nil {
		return nil, 0, fmt.Errorf("manifest: read %s: %w", s.root, err)
	}
	n, err := Decode(p)
	if err != nil {
		return nil, 0, fmt.Errorf("manifest: read %s: %w", s.root, err)
	}
	switch {
	case s.size != 0 && int64(len(p)) != s.size:
		err = malformed("%s has %d bytes, its parent says %d", s.root, len(p), s.size)
	case s.first != "" && n.first() != s.first:
		err = malformed("%s begins with %q, its index says %q", s.root, n.first(), s.first)
	case s.before != "" && n.last() >= s.before:
		err = malformed("%s holds %q, its index puts that after it", s.root, n.last())
	case n.Index && s.depth == MaxDepth:
		err = malformed("%s is an index below %d others", s.root, MaxDepth)
	}
	if err != nil {
		return nil, 0, err
	}
	return n, len(p), nil
}

// each calls fn for every entry below s.
func (w *walker) each(ctx context.Context, s span, fn func(*Entry) error) error {
	n, size, err := w.load(ctx, s)
	if err != nil {
		return err
	}
	if w.held += size; w.held > maxHeld {
		return status.Errorf(status.BodyCap, "manifest: the directories on the way to %s take more than %d bytes", s.root, maxHeld)
	}
	defer func() { w.held -= size }()
	for i := range n.Children {
		if err := w.each(ctx, n.span(s, i), fn); err != nil {
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

// Lookup returns the entry at a slash-separated path below the directory root.
// Slashes at either end mean nothing, the empty path is the directory itself
// (an entry without a name), and the path is normalised to NFC. It reads one
// node per level and does not follow links. The error is a [*EntryError] with
// the outcome not_found for a path that is not there, or with bad_request for
// one that cannot be, get's, or that of a directory that is not one.
func Lookup(ctx context.Context, get Getter, root b3.Root, path string) (Entry, error) {
	w := walker{get: get}
	at := Entry{Kind: Directory, Root: root}
	path = strings.Trim(norm.NFC.String(path), "/")
	if path == "" {
		_, size, err := w.load(ctx, span{root: root})
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
			return Entry{}, &EntryError{Entry: here, Reason: fmt.Sprintf("not found: %q is a %s", at.Name, at.Kind), Outcome: status.NotFound}
		}
		if reason := nameProblem(path[start:end]); reason != "" {
			return Entry{}, refuse(here, "%s", reason)
		}
		e, err := w.find(ctx, span{root: at.Root, size: at.Size}, path[start:end])
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

// find descends from the directory at s to the entry name; nil when it is not
// there.
func (w *walker) find(ctx context.Context, s span, name string) (*Entry, error) {
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
		s = n.span(s, i-1)
	}
}
