package meta

import (
	"encoding/binary"
	"hash/crc32"
)

// Castagnoli is the table of CRC-32C, the checksum of all stored data that no
// address verifies.
var Castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checksummed reports whether p ends with the CRC-32C of the bytes before it, in
// little-endian order.
func Checksummed(p []byte) bool {
	end := len(p) - 4
	return end >= 0 && binary.LittleEndian.Uint32(p[end:]) == crc32.Checksum(p[:end], Castagnoli)
}

// Uvarint decodes a varint from the beginning of p into v and advances p. It
// returns false for an invalid encoding, or one that is not the shortest.
func Uvarint(p *[]byte, v *uint64) bool {
	x, n := binary.Uvarint(*p)
	if n <= 0 || n > 1 && (*p)[n-1] == 0 {
		return false
	}
	*v, *p = x, (*p)[n:]
	return true
}

// Excerpt returns the first 64 bytes of p, to be quoted in an error.
func Excerpt(p []byte) []byte { return p[:min(len(p), 64)] }
