package meta

import (
	"encoding/binary"
	"hash/crc32"
)

// Castagnoli is the table of CRC-32C, the checksum of everything that no address
// proves.
var Castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checksummed reports whether p ends with the CRC-32C of what comes before.
func Checksummed(p []byte) bool {
	end := len(p) - 4
	return end >= 0 && binary.LittleEndian.Uint32(p[end:]) == crc32.Checksum(p[:end], Castagnoli)
}

// Uvarint takes a number, encoded in the only shortest way, off p.
func Uvarint(p *[]byte, v *uint64) bool {
	x, n := binary.Uvarint(*p)
	if n <= 0 || n > 1 && (*p)[n-1] == 0 {
		return false
	}
	*v, *p = x, (*p)[n:]
	return true
}

// Clip bounds what an error repeats.
func Clip(p []byte) []byte { return p[:min(len(p), 64)] }
