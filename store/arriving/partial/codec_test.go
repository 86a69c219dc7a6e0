package partial

import (
	"bytes"
	"encoding/binary"
	"testing"

	"allium/protocols/b3"
	"allium/store/meta"
)

// encodeRecord encodes rec, without its root, as format 2 did.
func encodeRecord(rec meta.Partial) []byte {
	b := binary.AppendUvarint([]byte{formPart}, uint64(rec.Size))
	b = binary.AppendUvarint(b, uint64(rec.Stored))
	return binary.AppendUvarint(b, uint64(rec.Used))
}

// FuzzPartial and FuzzPage: what a decoder takes, its encoder writes the same.
func FuzzPartial(f *testing.F) {
	f.Add(encodeRecord(meta.Partial{Size: 100 << 30, Stored: 3 * b3.GroupSize, Used: 29_000_000}))
	f.Add(encodeRecord(meta.Partial{Size: b3.MaxSize, Stored: b3.MaxSize, Used: 1<<32 - 1}))
	f.Add([]byte{formPart, 0x80, 0x80, 8, 1, 0}) // longer than needed
	f.Add([]byte{formPart, 100, 1, 1})           // small
	f.Add([]byte{formPart})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, p []byte) {
		rec, err := DecodeRecord(b3.Root{}, p)
		if err != nil {
			return
		}
		if meta.Small(rec.Size) || rec.Size > b3.MaxSize || rec.Stored < 0 || rec.Stored > rec.Size {
			t.Fatalf("% x is %+v", p, rec)
		}
		if got := encodeRecord(rec); !bytes.Equal(got, p) {
			t.Fatalf("% x is written % x", p, got)
		}
	})
}

func FuzzPage(f *testing.F) {
	page := meta.Bits{0: 1, 5: ^uint64(0), 63: 1 << 63}
	f.Add(uint64(0), EncodeBits(&page))
	f.Add(uint64(b3.MaxSize/b3.GroupSize/meta.PageBits), EncodeBits(&page))
	f.Add(^uint64(0), EncodeBits(&page))
	f.Add(uint64(7), []byte{1})
	f.Fuzz(func(t *testing.T, n uint64, v []byte) {
		page, err := DecodePage(n, v)
		if err != nil {
			return
		}
		if uint64(page.Number) != n {
			t.Fatalf("page %d is taken for %d", n, page.Number)
		}
		if got := EncodeBits(&page.Bits); !bytes.Equal(got, v) {
			t.Fatal("the page is written otherwise")
		}
	})
}
