package manifest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// objects is a store of the test: what was put, by address.
type objects map[b3.Root][]byte

func (o objects) put(_ context.Context, p []byte) (b3.Root, error) {
	r := b3.Sum(p)
	o[r] = bytes.Clone(p)
	return r, nil
}

func (o objects) get(_ context.Context, r b3.Root) ([]byte, error) {
	p, ok := o[r]
	if !ok {
		return nil, status.Errorf(status.NotFound, "%s is not here", r)
	}
	return p, nil
}

// raw stores a node that no builder would write and returns what its parent
// would say of it.
func (o objects) raw(t testing.TB, kind uint8, items ...wireEntry) Child {
	t.Helper()
	p := rawNode(t, kind, items...)
	o[b3.Sum(p)] = p
	c := Child{Root: b3.Sum(p), Size: int64(len(p))}
	if len(items) > 0 {
		c.First = items[0].Name
	}
	return c
}

func rawNode(t testing.TB, kind uint8, items ...wireEntry) []byte {
	t.Helper()
	buf := bytes.NewBufferString(Magic)
	if err := encode(buf, wireNode{Kind: kind, Entries: items}); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func build(t testing.TB, put Putter, s split, entries []Entry) (b3.Root, int64) {
	t.Helper()
	b := newBuilder(put, s)
	for _, e := range entries {
		if err := b.Add(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	root, size, err := b.Close(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return root, size
}

func collect(t testing.TB, get Getter, root b3.Root) []Entry {
	t.Helper()
	var all []Entry
	for e, err := range Entries(t.Context(), get, root) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

func fileEntry(name string, content string) Entry {
	return Entry{Name: name, Kind: File, Root: b3.Sum([]byte(content)), Size: int64(len(content))}
}

// numbered is the i-th entry of a large directory.
func numbered(i int) Entry {
	name := fmt.Sprintf("file-%08d.dat", i)
	return Entry{Name: name, Kind: File, Root: b3.Sum([]byte(name)), Size: int64(i), Executable: i%7 == 0}
}

// small splits as standard does, 128 times sooner.
var small = split{min: 2 << 10, max: 8 << 10, modulus: 8}

func sortEntries(entries []Entry) {
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
}

// genName draws any name that a directory may hold.
func genName() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.StringMatching(`[a-zA-Z0-9._-]{1,40}`),
		rapid.Map(rapid.StringN(1, 60, MaxName), norm.NFC.String),
		rapid.SampledFrom([]string{"é", "ß", "Straße", "…", " ", "\n", "\x7f", "-rf", "C:\\x", "日本語"}),
	).Filter(func(s string) bool { return NameProblem(s) == "" })
}

// genEntry draws any entry that the format can hold.
func genEntry() *rapid.Generator[Entry] {
	return rapid.Custom(func(t *rapid.T) Entry {
		e := Entry{Name: genName().Draw(t, "name"), Kind: EntryKind(rapid.IntRange(0, 2).Draw(t, "kind"))}
		switch e.Kind {
		case Link:
			e.Target = rapid.StringN(1, 80,
				MaxTarget).Filter(func(s string) bool { return targetProblem(s) == "" }).Draw(t,
				"target")
			return e
		case Directory:
			e.Size = rapid.Int64Range(minNode, MaxNode).Draw(t, "size")
		case File:
			e.Size = rapid.Int64Min(0).Draw(t, "size")
			e.Executable = rapid.Bool().Draw(t, "executable")
		}
		e.Root = b3.Sum([]byte(rapid.String().Draw(t, "content")))
		return e
	})
}

// genEntries draws the entries of a directory, in order.
func genEntries(limit int) *rapid.Generator[[]Entry] {
	return rapid.Custom(func(t *rapid.T) []Entry {
		n := rapid.IntRange(0, limit).Draw(t, "n")
		entries := rapid.SliceOfNDistinct(genEntry(), n, n, func(e Entry) string { return e.Name }).Draw(t, "entries")
		sortEntries(entries)
		return entries
	})
}

// wireNode is the map after the magic line (OAP1.md §11).
type wireNode struct {
	Kind    uint8       `cbor:"0,keyasint"`
	Entries []wireEntry `cbor:"1,keyasint,omitempty"`
}
