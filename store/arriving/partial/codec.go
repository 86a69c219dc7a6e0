package partial

import (
	"encoding/binary"
	"fmt"

	"allium/protocols/b3"
	"allium/store/meta"
)

const formPart = 1 // size, held, used

// DecodeRecord decodes what format 2 of the store kept of a download in its index. It accepts no
// bytes that could be shorter.
func DecodeRecord(root b3.Root, p []byte) (meta.Partial, error) {
	rest := p
	var size, held, used uint64
	ok := len(p) > 0 && p[0] == formPart
	if ok {
		rest = p[1:]
		ok = meta.Uvarint(&rest, &size) && meta.Uvarint(&rest, &held) && meta.Uvarint(&rest, &used) && len(rest) == 0
	}
	if !ok || size <= b3.GroupSize || size > b3.MaxSize || held > size || used > 1<<32-1 {
		return meta.Partial{}, fmt.Errorf("the index entry of a part of %s is malformed: % x", root, meta.Excerpt(p))
	}
	return meta.Partial{Root: root, Size: int64(size), Stored: int64(held), Used: meta.Second(used)}, nil
}

// EncodeBits encodes a page of a bitmap.
func EncodeBits(bits *meta.Bits) []byte {
	b := make([]byte, 0, 8*len(bits))
	for _, word := range bits {
		b = binary.LittleEndian.AppendUint64(b, word)
	}
	return b
}

// DecodePage decodes page n of a bitmap.
func DecodePage(n uint64, value []byte) (meta.BitsPage, error) {
	var page meta.BitsPage
	if len(value) != 8*len(page.Bits) {
		return page, fmt.Errorf("the index entry of a bitmap is malformed: %d = % x", n, meta.Excerpt(value))
	}
	if n > b3.MaxSize/b3.GroupSize/meta.PageBits {
		return page, fmt.Errorf("the index has page %d of a bitmap", n)
	}
	page.Number = int64(n)
	for i := range page.Bits {
		page.Bits[i] = binary.LittleEndian.Uint64(value[8*i:])
	}
	return page, nil
}
