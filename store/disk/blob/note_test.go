package blob

import (
	"bytes"
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/protocols/b3"
	"allium/store/disk/fsys"
	"allium/store/meta"
)

// TestReadSlots: the valid slot with the higher number counts, and damaged slots are
// counted.
func TestReadSlots(t *testing.T) {
	t.Parallel()
	older, newer := encodeSlot(notePart, 4, []byte("older")), encodeSlot(notePart, 5, []byte("newer"))
	damaged := bytes.Clone(newer)
	damaged[slotHead] ^= 1
	for _, test := range []struct {
		name string
		note []byte
		seq  uint64
		p    string
		bad  int
	}{
		{"both", append(bytes.Clone(older), newer...), 5, "newer", 0},
		{"swapped", append(bytes.Clone(newer), older...), 5, "newer", 0},
		{"damaged newer", append(bytes.Clone(older), damaged...), 4, "older", 1},
		{"cut", older, 4, "older", 1},
		{"empty", nil, 0, "", 2},
		{"other kind", append(encodeSlot(noteUpload, 9, nil), newer...), 5, "newer", 1},
	} {
		seq, p, bad, err := readSlots(notePart, bytes.NewReader(test.note), func([]byte) bool { return true })
		if err != nil || seq != test.seq || string(p) != test.p || bad != test.bad {
			t.Errorf("%s: slot %d says %q with %d bad, %v; want %d, %q and %d",
				test.name, seq, p, bad, err, test.seq, test.p, test.bad)
		}
	}
}

// TestPlace: a page of the bitmap is read back, and damage of it is told apart.
func TestPlace(t *testing.T) {
	t.Parallel()
	root, other := b3.Sum([]byte("a")), b3.Sum([]byte("b"))
	const size = 3 * meta.PageBits * b3.GroupSize // three pages
	page := meta.BitsPage{Number: 2}
	page.Bits[0] = 0b1011
	b := encodePlace(root, &page)
	flip := func(at int) []byte {
		p := bytes.Clone(b)
		p[at] ^= 1
		return p
	}
	for _, test := range []struct {
		name     string
		root     b3.Root
		size     int64
		b        []byte
		torn, ok bool
	}{
		{"whole", root, size, b, false, true},
		{"of another object", other, size, b, false, false},
		{"behind the end", root, size / 3, b, false, false},
		{"damaged number", root, size, flip(0), false, false},
		{"damaged bits", root, size, flip(placeHead), true, true},
	} {
		got, torn, ok := decodePlace(test.root, test.size, test.b)
		if torn != test.torn || ok != test.ok || ok && !torn && got != page {
			t.Errorf("%s: page %d, torn %t, ok %t", test.name, got.Number, torn, ok)
		}
	}
}

// TestPartHead: what a slot of a download's note says is read back, and nothing else
// is accepted.
func TestPartHead(t *testing.T) {
	t.Parallel()
	rec := meta.Partial{Root: b3.Sum([]byte("a")), Size: 5 * b3.GroupSize, Used: 7}
	p := encodePartHead(rec, 1)
	if got, known, ok := decodePartHead(rec.Root, p); !ok || known != 1 || got != rec {
		t.Errorf("read %+v with %d places, %t", got, known, ok)
	}
	small, many := rec, encodePartHead(rec, 2)
	small.Size = b3.GroupSize
	for name, p := range map[string][]byte{
		"short": p[1:], "long": append(bytes.Clone(p), 0),
		"small object": encodePartHead(small, 0), "too many places": many,
	} {
		if _, _, ok := decodePartHead(rec.Root, p); ok {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, _, ok := decodePartHead(b3.Sum(nil), p); ok {
		t.Error("the note of another object is accepted")
	}
}

// TestNotes: a note is made, changed and dropped; the slots say each state.
func TestNotes(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	for _, dir := range []string{fsys.DirPart, fsys.DirTemp} {
		if err := fs.MkdirAll("/store/"+dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	n := &notes{dir: &dir{fs: fs, root: "/store", prefix: "test"}, syncing: make(chan struct{}, 1)}
	name := n.path(fsys.DirPart, "x")
	says := func(want string) {
		t.Helper()
		f, err := fs.Open(name + partSuffix)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, p, bad, err := readSlots(notePart, f, func([]byte) bool { return true }); string(p) != want || bad > 0 ||
			err != nil {
			t.Errorf("the note says %q with %d bad slots, %v; want %q", p, bad, err, want)
		}
	}
	if err := n.makeNote(name+partSuffix, notePart, []byte("one"), nil); err != nil {
		t.Fatal(err)
	}
	says("one")
	nothing := func(vfs.File) error { return nil }
	for seq, state := range []string{"two", "three"} {
		if err := n.changeNote(name+partSuffix, notePart, firstNote+1+uint64(seq), []byte(state), nothing); err != nil {
			t.Fatal(err)
		}
		says(state)
	}
	if err := errors.Join(n.dropNote(name, partSuffix), n.close()); err != nil {
		t.Fatal(err)
	}
	if left, err := fs.List("/store/" + fsys.DirPart); err != nil || len(left) > 0 {
		t.Errorf("part/ has %v, %v", left, err)
	}
}

// TestOpenFile: a file that is missing or has another size is a defect.
func TestOpenFile(t *testing.T) {
	t.Parallel()
	d := &dir{fs: vfs.NewMem(), root: "/"}
	f, err := d.fs.Create("/x", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("four")); err != nil {
		t.Fatal(err)
	}
	f.Close()
	for _, test := range []struct {
		name string
		size int64
		want error
	}{
		{"/x", 4, nil}, {"/x", 5, meta.Defect("short")}, {"/x", 3, meta.Defect("short")},
		{"/y", 0, meta.Defect("missing")},
	} {
		f, err := d.openFile(test.name, test.size)
		if !errors.Is(err, test.want) || (f == nil) != (test.want != nil) {
			t.Errorf("%s of %d bytes: %v, want %v", test.name, test.size, err, test.want)
		}
		if f != nil {
			f.Close()
		}
	}
}
