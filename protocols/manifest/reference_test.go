package manifest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"
	"pgregory.net/rapid"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// referenceDecoder decodes any CBOR that could be a node.
var referenceDecoder = must(cbor.DecOptions{
	DupMapKey:         cbor.DupMapKeyEnforcedAPF,
	IndefLength:       cbor.IndefLengthForbidden,
	TagsMd:            cbor.TagsForbidden,
	ExtraReturnErrors: cbor.ExtraDecErrorUnknownField,
	UTF8:              cbor.UTF8RejectInvalid,
	MaxNestedLevels:   4,
	MaxMapPairs:       16,
	MaxArrayElements:  MaxNode / 8,
}.DecMode())

// valid says whether p is a node, as a library decodes it and encodes it again.
func valid(t testing.TB, p []byte) bool {
	body, ok := bytes.CutPrefix(p, []byte(Magic))
	var w wireNode
	if !ok || len(p) > MaxNode || referenceDecoder.Unmarshal(body, &w) != nil ||
		!bytes.Equal(rawNode(t, w.Kind, w.Entries...), p) ||
		w.Kind != kindDirectory && (w.Kind != kindIndex || len(w.Entries) == 0) {
		return false
	}
	for i, e := range w.Entries {
		it := item{[]byte(e.Name), e.Kind, e.Digest, e.Size, e.Executable, []byte(e.Target)}
		if it.check(w.Kind == kindIndex) != nil || i > 0 && w.Entries[i-1].Name >= e.Name {
			return false
		}
	}
	return true
}

// TestDecodesAsTheReference: a change of one byte of a node, or of its length, is refused unless a
// library makes the same bytes of it.
func TestDecodesAsTheReference(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := rawNode(t, kindDirectory, wires(genEntries(6).Draw(rt, "entries"))...)
		if rapid.Bool().Draw(rt, "index") {
			var below []wireEntry
			for _, e := range genEntries(6).Draw(rt, "children") {
				if e.Kind == Directory {
					below = append(below, wireEntry{Name: e.Name, Digest: e.Root[:], Size: e.Size})
				}
			}
			p = rawNode(t, kindIndex, below...)
		}
		at := rapid.IntRange(len(Magic), len(p)-1).Draw(rt, "at")
		switch rapid.IntRange(0, 3).Draw(rt, "change") {
		case 0:
			p[at] = rapid.Byte().Draw(rt, "byte")
		case 1:
			p = append(p[:at], p[at+1:]...)
		case 2:
			p = append(p[:at], append([]byte{rapid.Byte().Draw(rt, "more")}, p[at:]...)...)
		}
		n, err := Decode(p)
		if (err == nil) != valid(t, p) {
			rt.Fatalf("%x: %v", p, err)
		}
		if _, tableErr := NewTable(p); (tableErr == nil) != (err == nil) {
			rt.Fatalf("%x: %v, as a table: %v", p, err, tableErr)
		}
		if refs, refsErr := Refs(p); (refsErr == nil) != (err == nil) || err == nil && !slices.Equal(refs, n.Refs()) {
			rt.Fatalf("%x: %v, %v", p, refs, refsErr)
		}
	})
}

// inParts reads objects in parts of a few KiB, as a source of large ones does, and counts the longest.
func (o objects) inParts(longest *int) Nodes {
	return Nodes{Parts: func(ctx context.Context, root b3.Root, at int64) ([]byte, int64, error) {
		p, err := o.get(ctx, root)
		if err != nil {
			return nil, 0, err
		}
		part := p[at:min(int64(len(p)), at+minPart+512)]
		*longest = max(*longest, len(part))
		return part, int64(len(p)), nil
	}}
}

// inTables is inParts for what reads all entries, and reads the nodes on the way to a name as tables.
func (o objects) inTables(longest *int) Nodes {
	nodes, tables := o.inParts(longest), map[b3.Root]*Table{}
	nodes.Table = func(ctx context.Context, root b3.Root) (t *Table, err error) {
		if t = tables[root]; t == nil {
			var p []byte
			if p, err = o.get(ctx, root); err == nil {
				t, err = NewTable(p)
			}
			tables[root] = t
		}
		return t, err
	}
	return nodes
}

// TestParts: a directory that is read in parts has the same entries, and lookups find the same.
func TestParts(t *testing.T) { testNodes(t, objects.inParts) }

// TestTables: a directory whose nodes are tables has the same entries, and lookups find the same.
func TestTables(t *testing.T) { testNodes(t, objects.inTables) }

func testNodes(t *testing.T, nodes func(o objects, longest *int) Nodes) {
	o := objects{}
	var entries []Entry
	for i := range 20_000 {
		entries = append(entries, numbered(i))
		if i%100 == 0 {
			name := fmt.Sprintf("link-%08d", i)
			entries = append(entries, Entry{Name: name, Kind: Link, Target: strings.Repeat("x", MaxTarget-i/10)})
		}
	}
	sortEntries(entries)
	longest := 0
	for name, s := range map[string]split{"large leaves": standard, "an index over indexes": small} {
		root, _ := build(t, o.put, s, entries)
		i := 0
		dir, err := nodes(o, &longest).Open(t.Context(), root, entries[7].Name)
		n, decodeErr := Decode(o[root])
		if err != nil || decodeErr != nil || dir.Size != int64(len(o[root])) || dir.Listed != sizeOf(n) {
			t.Fatalf("%s: %+v, %v, %v", name, dir, err, decodeErr)
		}
		for e, err := range dir.Entries(t.Context()) {
			if err != nil || e != entries[i] {
				t.Fatalf("%s: entry %d is %v, %v", name, i, e, err)
			}
			i++
		}
		if i != len(entries) {
			t.Fatalf("%s: %d entries", name, i)
		}
		for _, i := range []int{0, 1, 777, 12_345, len(entries) - 1} {
			if e, err := nodes(o, &longest).Lookup(t.Context(), root, entries[i].Name); err != nil || e != entries[i] {
				t.Errorf("%s: found %v, %v, want %v", name, e, err, entries[i])
			}
		}
		if e, err := dir.Named(t.Context()); err != nil || e == nil || *e != entries[7] {
			t.Errorf("%s: found %v, %v, want %v", name, e, err, entries[7])
		}
		for _, missing := range []string{"missing", "\x01", "zzz", entries[5].Name + "x"} {
			if _, err := nodes(o, &longest).Lookup(t.Context(), root, missing); status.Of(err) != status.NotFound {
				t.Errorf("%s: %q: %v", name, missing, err)
			}
		}
	}
	if longest > minPart+512 {
		t.Errorf("a part had %d bytes", longest)
	}
	// A damaged end of a leaf is found before its first entry.
	bad := rawNode(t, kindDirectory, wires(entries[:2000])...)
	bad = bad[:len(bad)-1]
	o[b3.Sum(bad)] = bad
	if dir, err := nodes(o, &longest).Open(t.Context(), b3.Sum(bad), ""); status.Of(err) != status.BadRequest {
		t.Errorf("%+v, %v", dir, err)
	}
	index := rawNode(t, kindIndex, wireEntry{Name: entries[0].Name, Digest: digestOf(bad), Size: int64(len(bad))})
	o[b3.Sum(index)] = index
	dir, err := nodes(o, &longest).Open(t.Context(), b3.Sum(index), "")
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range dir.Entries(t.Context()) {
		if status.Of(err) != status.BadRequest {
			t.Fatalf("%v, %v", e, err)
		}
	}
}

func digestOf(p []byte) []byte { root := b3.Sum(p); return root[:] }

func sizeOf(n *Node) (sum int64) {
	for _, c := range n.Children {
		sum += c.Size
	}
	return sum
}
