package resumable

import (
	"bytes"
	"testing"

	"allium/protocols/b3"
	"allium/store/meta"
)

// FuzzUpload: what the decoder takes, its encoder writes the same.
func FuzzUpload(f *testing.F) {
	for _, rec := range []meta.Upload{
		{},
		{
			UploadOptions: meta.UploadOptions{Length: 100 << 30, Label: "photos/ä", Pin: true},
			Offset:        3 << 30, Expires: 1<<32 - 1,
		},
		{UploadOptions: meta.UploadOptions{Length: 5, Expect: b3.Root{1}}, Offset: 5, Root: b3.Root{1}},
		{
			UploadOptions: meta.UploadOptions{Length: b3.MaxSize, Expect: b3.Root{1}, Pin: true},
			Offset:        b3.MaxSize, Root: b3.Root{1}, Done: true, IsNew: true,
		},
	} {
		f.Add(Encode(rec))
	}
	f.Add([]byte{formUpload, 0, 1, 2, 0})                // more is here than there is
	f.Add([]byte{formUpload, uploadDone, 1, 1, 0})       // without an address
	f.Add([]byte{formUpload, uploadExpects, 1, 1, 0, 1}) // cut
	f.Add(append([]byte{formUpload, uploadExpects, 1, 1, 0}, b3.Root{}.Hex()[:32]...))
	f.Add([]byte{formUpload, 0x80, 1, 1, 0})
	f.Add([]byte{formUpload, 0, 0x81, 0, 1, 0}) // longer than needed
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, p []byte) {
		id := meta.UploadID{1, 2, 3}
		rec, err := Decode(id, p)
		if err != nil {
			return
		}
		whole := !rec.Root.IsZero()
		if rec.ID != id || rec.Offset < 0 || rec.Offset > rec.Length || rec.Length > b3.MaxSize ||
			rec.Done && !whole || whole && rec.Offset != rec.Length {
			t.Fatalf("% x is %+v", p, rec)
		}
		if got := Encode(rec); !bytes.Equal(got, p) {
			t.Fatalf("% x is written % x", p, got)
		}
	})
}

// FuzzUploadID: what is taken for a name of an upload is one.
func FuzzUploadID(f *testing.F) {
	f.Add(newID(7).String())
	f.Add("ABCDEFabcdef00000000000000000000")
	f.Add("../../../../../../../etc/passwd.")
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) {
		if id, ok := ParseID(s); ok && id.String() != s {
			t.Fatalf("%q is taken for %s", s, id)
		}
	})
}

// TestUploadIDs: no two are one, and each reads back.
func TestUploadIDs(t *testing.T) {
	t.Parallel()
	seen := map[meta.UploadID]bool{}
	for range 1000 {
		id := newID(7)
		if back, ok := ParseID(id.String()); !ok || back != id || ownerOf(id) != 7 || seen[id] {
			t.Fatalf("%s reads as %s, %t; seen: %t", id, back, ok, seen[id])
		}
		seen[id] = true
	}
}
