package content

import (
	"encoding/binary"
	"iter"
	"slices"
	"strings"

	"allium/protocols/manifest"
)

// collected are the entries of a directory in one piece of memory, about as large as its manifests. An
// [manifest.Entry] takes several times as much, which matters because a sorted listing keeps its entries until its
// client has read them.
type collected struct {
	size     int             // the most bytes of text
	building strings.Builder // the text while entries are added
	text     string          // the entries one after another; names and targets are parts of it
	items    []collectedItem
}

// collectedItem is one entry of collected.
type collectedItem struct {
	size int64  // as a listing shows it; 0 but for a file
	at   uint32 // where it begins in text
	kind uint8  // its kind as an index of kinds
}

// collectedItemBytes is the size of a collectedItem.
const collectedItemBytes = 16

// newCollected returns a collected for entries whose manifests have size bytes.
func newCollected(size int) *collected {
	c := &collected{size: size, items: make([]collectedItem, 0, min(maxSorted, size/manifest.MinItem))}
	c.building.Grow(size)
	return c
}

// executableBit marks the kind of an executable file.
const executableBit = 0x80

// add adds an entry. It returns false if there are too many, or if they are longer than their manifests.
func (c *collected) add(e *manifest.Entry) bool {
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
	if len(c.items) == maxSorted || c.building.Len()+n > c.size {
		return false
	}
	kind, _ := slices.BinarySearch(kinds[:], kindOf(e).Name)
	item := collectedItem{at: uint32(c.building.Len()), kind: uint8(kind)}
	if e.Kind == manifest.File {
		item.size = e.Size
	}
	c.items = append(c.items, item)
	c.building.Write(b)
	c.building.WriteString(e.Name)
	c.building.Write(tail)
	c.building.WriteString(e.Target)
	return true
}

// whole ends the adding.
func (c *collected) whole() *collected {
	c.text = c.building.String()
	return c
}

// entries yields the entries in the order of items, and no errors.
func (c *collected) entries() iter.Seq2[manifest.Entry, error] {
	return func(yield func(manifest.Entry, error) bool) {
		for _, it := range c.items {
			if !yield(c.entry(it), nil) {
				return
			}
		}
	}
}

// entry returns the entry of an item, a directory without its size. Its texts share the memory of c.
func (c *collected) entry(it collectedItem) (e manifest.Entry) {
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
func (c *collected) name(it collectedItem) string {
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
