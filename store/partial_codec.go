package store

import (
	"encoding/binary"
	"fmt"

	"allium/protocols/b3"
)

// partialRecord is what a checkpoint notes of a partial object beside the
// bitmap of its groups.
type partialRecord struct {
	root b3.Root
	size int64 // of the object, proved
	held int64 // bytes that are here
	used second
}

// partialPage is one page of the bitmap of groups.
type partialPage struct {
	n    int64 // the page's number: its first group is n × pageBits
	bits bitPage
}

const formPart = 1 // size, held, used

// encodePartial encodes rec as the value of its key.
func encodePartial(rec partialRecord) []byte {
	b := binary.AppendUvarint([]byte{formPart}, uint64(rec.size))
	b = binary.AppendUvarint(b, uint64(rec.held))
	return binary.AppendUvarint(b, uint64(rec.used))
}

// decodePartial is the inverse of encodePartial. It takes nothing else.
func decodePartial(root b3.Root, p []byte) (partialRecord, error) {
	rest := p
	var size, held, used uint64
	ok := len(p) > 0 && p[0] == formPart
	if ok {
		rest = p[1:]
		ok = uvarint(&rest, &size) && uvarint(&rest, &held) && uvarint(&rest, &used) && len(rest) == 0
	}
	if !ok || size <= b3.GroupSize || size > b3.MaxSize || held > size || used > 1<<32-1 {
		return partialRecord{}, fmt.Errorf("the index entry of a part of %s is malformed: % x", root, clip(p))
	}
	return partialRecord{root: root, size: int64(size), held: int64(held), used: second(used)}, nil
}

// pageKey is the key of page n of root's bitmap.
func pageKey(root b3.Root, n int64) []byte {
	return binary.BigEndian.AppendUint64(rootKey(keyPart, root), uint64(n))
}

func encodePage(bits *bitPage) []byte {
	b := make([]byte, 0, 8*len(bits))
	for _, word := range bits {
		b = binary.LittleEndian.AppendUint64(b, word)
	}
	return b
}

// decodePage reads a page's key and value.
func decodePage(key, value []byte) (partialPage, error) {
	var page partialPage
	if len(key) != 1+b3.Size+8 || key[0] != keyPart || len(value) != 8*len(page.bits) {
		return page, fmt.Errorf("the index entry of a bitmap is malformed: % x = % x", clip(key), clip(value))
	}
	n := binary.BigEndian.Uint64(key[1+b3.Size:])
	if n > b3.MaxSize/b3.GroupSize/pageBits {
		return page, fmt.Errorf("the index has page %d of a bitmap", n)
	}
	page.n = int64(n)
	for i := range page.bits {
		page.bits[i] = binary.LittleEndian.Uint64(value[8*i:])
	}
	return page, nil
}
