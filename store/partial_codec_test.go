package store

import (
	"bytes"
	"testing"

	"allium/protocols/b3"
)

// FuzzPartial and FuzzPage: what a decoder takes, its encoder writes the same.
func FuzzPartial(f *testing.F) {
	f.Add(encodePartial(partialRecord{size: 100 << 30, held: 3 * b3.GroupSize, used: 29_000_000}))
	f.Add(encodePartial(partialRecord{size: b3.MaxSize, held: b3.MaxSize, used: 1<<32 - 1}))
	f.Add([]byte{formPart, 0x80, 0x80, 8, 1, 0}) // longer than needed
	f.Add([]byte{formPart, 100, 1, 1})           // small
	f.Add([]byte{formPart})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, p []byte) {
		rec, err := decodePartial(b3.Root{}, p)
		if err != nil {
			return
		}
		if small(rec.size) || rec.size > b3.MaxSize || rec.held < 0 || rec.held > rec.size {
			t.Fatalf("% x is %+v", p, rec)
		}
		if got := encodePartial(rec); !bytes.Equal(got, p) {
			t.Fatalf("% x is written % x", p, got)
		}
	})
}

func FuzzPage(f *testing.F) {
	page := bitPage{0: 1, 5: ^uint64(0), 63: 1 << 63}
	f.Add(pageKey(b3.Root{1}, 0), encodePage(&page))
	f.Add(pageKey(b3.Root{2}, b3.MaxSize/b3.GroupSize/pageBits), encodePage(&page))
	f.Add(pageKey(b3.Root{2}, -1), encodePage(&page))
	f.Add(pageKey(b3.Root{2}, 7), []byte{1})
	f.Add(rootKey(keyPart, b3.Root{}), encodePage(&page))
	f.Fuzz(func(t *testing.T, k, v []byte) {
		page, err := decodePage(k, v)
		if err != nil {
			return
		}
		if got := pageKey(b3.Root(k[1:1+b3.Size]), page.n); !bytes.Equal(got, k) {
			t.Fatalf("% x is written % x", k, got)
		}
		if got := encodePage(&page.bits); !bytes.Equal(got, v) {
			t.Fatal("the page is written otherwise")
		}
	})
}
