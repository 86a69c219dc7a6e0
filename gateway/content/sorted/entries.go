// Package sorted holds the entries of a directory in little memory, and sorts them.
package sorted

import (
	"cmp"
	"context"
	"encoding/binary"
	"iter"
	"slices"
	"strings"

	"allium/gateway/content/kind"
	"allium/internal/natural"
	"allium/protocols/manifest"
)

// Entries are the entries of a directory in one piece of memory, about as large as its manifests. An
// [manifest.Entry] takes several times as much, which matters because a sorted listing keeps its entries until its
// client has read them.
type Entries struct {
	size     int             // the most bytes of text
	most     int             // entries
	building strings.Builder // the text while entries are added
	text     string          // the entries one after another; names and targets are parts of it
	items    []item
}

// item is one entry.
type item struct {
	size int64  // as a listing shows it; 0 but for a file
	at   uint32 // where it begins in text
	kind uint8  // its kind by [kind.Kind.Index]
}

// itemBytes is the size in bytes of what an entry needs beside its text.
const itemBytes = 16

// newEntries returns Entries for at most that many entries, whose manifests have size bytes.
func newEntries(size, most int) *Entries {
	c := &Entries{size: size, most: most, items: make([]item, 0, min(most, size/manifest.MinItem))}
	c.building.Grow(size)
	return c
}

// executableBit marks the kind of an executable file.
const executableBit = 0x80

// add adds an entry. It returns false if there are too many, or if they are longer than their manifests.
func (c *Entries) add(e *manifest.Entry) bool {
	var buf [1 + 2*binary.MaxVarintLen64]byte
	b := append(buf[:0], byte(e.Kind))
	if e.Executable {
		b[0] |= executableBit
	}
	b = binary.AppendUvarint(b, uint64(len(e.Name)))
	tail := e.Root[:]
	if e.Kind == manifest.Link {
		tail = binary.AppendUvarint(b[len(b):], uint64(len(e.Target)))
	}
	n := len(b) + len(e.Name) + len(tail) + len(e.Target)
	if len(c.items) == c.most || c.building.Len()+n > c.size {
		return false
	}
	it := item{at: uint32(c.building.Len()), kind: kind.Of(e).Index()}
	if e.Kind == manifest.File {
		it.size = e.Size
	}
	c.items = append(c.items, it)
	c.building.Write(b)
	c.building.WriteString(e.Name)
	c.building.Write(tail)
	c.building.WriteString(e.Target)
	return true
}

// whole ends the adding.
func (c *Entries) whole() *Entries {
	c.text = c.building.String()
	return c
}

// All yields the entries in the order of items, and no errors.
func (c *Entries) All() iter.Seq2[manifest.Entry, error] {
	return func(yield func(manifest.Entry, error) bool) {
		for _, it := range c.items {
			if !yield(c.entry(it), nil) {
				return
			}
		}
	}
}

// entry returns the entry of an item, a directory without its size. Its texts share the memory of c.
func (c *Entries) entry(it item) (e manifest.Entry) {
	p := c.text[it.at:]
	e.Kind, e.Executable = manifest.EntryKind(p[0]&^executableBit), p[0]&executableBit != 0
	e.Name, p = cutText(p[1:])
	if e.Kind == manifest.Link {
		e.Target, _ = cutText(p)
		return e
	}
	copy(e.Root[:], p)
	e.Size = it.size
	return e
}

// name returns the name of an item.
func (c *Entries) name(it item) string {
	name, _ := cutText(c.text[it.at+1:])
	return name
}

// cutText returns the text at the beginning of p and what follows it.
func cutText(p string) (text, rest string) {
	n, rest := cutUvarint(p)
	return rest[:n], rest[n:]
}

// cutUvarint returns the number at the beginning of p and what follows it.
func cutUvarint(p string) (v uint64, rest string) {
	for i := range len(p) {
		v |= uint64(p[i]&0x7f) << (7 * i)
		if p[i] < 0x80 {
			return v, p[i+1:]
		}
	}
	return v, ""
}

// Order selects what entries are sorted by.
type Order int

// The orders.
const (
	ByName Order = iota
	BySize
	ByKind
)

var directory = kind.Directory.Index()

// Sort sorts the entries: directories first, and those with the same size or kind in the natural order
// of their names. The reverse order reverses directories and others apart.
func (c *Entries) Sort(by Order, desc bool) {
	slices.SortFunc(c.items, func(x, y item) int {
		if r := cmp.Compare(rank(x), rank(y)); r != 0 {
			return r
		}
		r := 0
		switch by {
		case ByKind:
			r = cmp.Compare(x.kind, y.kind)
		case BySize:
			r = cmp.Compare(x.size, y.size)
		}
		if r == 0 {
			r = natural.Compare(c.name(x), c.name(y))
		}
		if desc {
			return -r
		}
		return r
	})
}

func rank(it item) int {
	if it.kind == directory {
		return 0
	}
	return 1
}

// Bytes returns how many bytes of memory at most so many entries of a directory take while they are sorted and sent.
func Bytes(dir *manifest.Dir, most int64) int64 {
	return dir.Listed + min(most, dir.Listed/manifest.MinItem)*itemBytes
}

// Collect returns all entries of a directory, or nil if there are more than most, or more than fit the bytes that the
// root node tells. It calls begin when an entry is proved.
func Collect(ctx context.Context, dir *manifest.Dir, most int, begin func() error) (*Entries, error) {
	all := newEntries(int(dir.Listed), most)
	for e, err := range dir.Entries(ctx) {
		if err == nil {
			err = begin()
		}
		if err != nil {
			return nil, err
		}
		if !all.add(&e) {
			return nil, nil
		}
	}
	return all.whole(), nil
}

// Filter matches names by a part of them, in any case. The zero Filter matches all.
type Filter struct{ part string }

// NewFilter returns the Filter of a part of names.
func NewFilter(part string) Filter { return Filter{strings.ToLower(part)} }

// Match reports whether the part is in a name.
func (f Filter) Match(name string) bool {
	return f.part == "" || strings.Contains(strings.ToLower(name), f.part)
}
