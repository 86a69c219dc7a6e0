package gateway

import (
	"encoding/binary"
	"slices"
)

// wideFont makes a WOFF2 font whose letter A is a triangle, three times as wide
// as the font is high, so that a page shows whether it is used. Its tables are
// neither transformed nor compressed.
func wideFont() string {
	u16 := func(to []byte, values ...int) []byte {
		for _, v := range values {
			to = binary.BigEndian.AppendUint16(to, uint16(v))
		}
		return to
	}
	const em, wide = 1000, 3000
	glyph := u16(nil, 1, 0, 0, em, em, 2, 0) // one contour, its box, its last point, no instructions
	glyph = append(glyph, 1, 1, 1)           // points on the curve
	glyph = u16(glyph, 0, em, 0, 0, 0, em)   // their x and y, as differences
	glyph = append(glyph, 0)                 // to an even length
	head := u16(nil, 1, 0, 1, 0, 0, 0, 0x5f0f, 0x3cf5, 3, em)
	head = append(head, make([]byte, 16)...)      // created, modified
	head = u16(head, 0, 0, em, em, 0, 8, 2, 0, 0) // box, style, smallest size, direction, short offsets
	os2 := make([]byte, 96)                       // version 4
	copy(os2, u16(nil, 4, wide, 400, 5))
	copy(os2[64:], u16(nil, 'A', 'A', em, 0, 0, em, 0))
	tables := []struct {
		tag  byte // the number of a known table, and how it is transformed
		data []byte
	}{
		// cmap: A is glyph 1
		{0, u16(nil, 0, 1, 3, 1, 0, 12, 4, 32, 0, 4, 4, 1, 0, 'A', 0xffff, 0, 'A', 0xffff, 1-'A', 1, 0, 0)},
		{1, head},
		{2, u16(nil, 1, 0, em, 0, 0, wide, 0, 0, em, 1, 0, 0, 0, 0, 0, 0, 0, 2)}, // hhea
		{3, u16(nil, wide, 0, wide, 0)},                                          // hmtx
		{4, u16(nil, 1, 0, 2, 3, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0)},            // maxp
		{5, u16(nil, 0, 1, 18, 3, 1, 0x409, 1, 8, 0, 'W', 'i', 'd', 'e')},        // name
		{6, os2},
		{7, append(u16(nil, 3, 0), make([]byte, 28)...)}, // post
		{10 | 3<<6, glyph},
		{11 | 3<<6, u16(nil, 0, 0, len(glyph)/2)}, // loca
	}
	var data, directory []byte
	size := 12 + 16*len(tables)
	for _, t := range tables {
		directory = append(directory, t.tag, byte(len(t.data))) // below 128, so one byte says it
		data = append(data, t.data...)
		size += (len(t.data) + 3) &^ 3
	}
	// Brotli: one block, not compressed
	stored := binary.LittleEndian.AppendUint32(nil, uint32(len(data)-1)<<4|1<<20)[:3]
	stored = slices.Concat(stored, data, []byte{3}) // and an empty last one
	body := slices.Concat(directory, stored)
	total := (48 + len(body) + 3) &^ 3
	font := binary.BigEndian.AppendUint32([]byte("wOF2\x00\x01\x00\x00"), uint32(total))
	font = u16(font, len(tables), 0)
	font = binary.BigEndian.AppendUint32(font, uint32(size))
	font = binary.BigEndian.AppendUint32(font, uint32(len(stored)))
	font = append(font, make([]byte, 24)...) // version, metadata, private data
	font = append(font, body...)
	return string(append(font, make([]byte, total-len(font))...))
}
