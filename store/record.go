package store

import (
	"encoding/binary"
	"hash/crc32"

	"allium/protocols/b3"
)

// Layout of a segment; FORMAT.md says it byte by byte. Integers are
// little-endian.
const (
	segmentMagic      = "allium segment 1"
	segmentHeaderSize = 32 // magic[16] epoch u64 zero u32 crc u32

	recordMagic      = 0x31524c41 // "ALR1"
	recordHeaderSize = 56         // magic u32, length u32, epoch u64, root[32], zero u32, crc u32
	maxRecordSize    = recordHeaderSize + b3.GroupSize
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// record is a decoded record header.
type record struct {
	root   b3.Root
	length int // of the body
}

// putSegmentHeader writes the header of a segment into p.
func putSegmentHeader(p []byte, epoch uint64) {
	copy(p, segmentMagic)
	binary.LittleEndian.PutUint64(p[16:], epoch)
	binary.LittleEndian.PutUint32(p[24:], 0)
	binary.LittleEndian.PutUint32(p[28:], crc32.Checksum(p[:28], castagnoli))
}

// parseSegmentHeader reads the header of a segment; ok is false when it is
// none.
func parseSegmentHeader(p []byte) (epoch uint64, ok bool) {
	if len(p) < segmentHeaderSize || string(p[:16]) != segmentMagic || !checksummed(p[:segmentHeaderSize]) {
		return 0, false
	}
	return binary.LittleEndian.Uint64(p[16:]), true
}

// putRecordHeader writes the header of a record into p.
func putRecordHeader(p []byte, epoch uint64, r record) {
	binary.LittleEndian.PutUint32(p, recordMagic)
	binary.LittleEndian.PutUint32(p[4:], uint32(r.length))
	binary.LittleEndian.PutUint64(p[8:], epoch)
	copy(p[16:], r.root[:])
	binary.LittleEndian.PutUint32(p[48:], 0)
	binary.LittleEndian.PutUint32(p[52:], crc32.Checksum(p[:52], castagnoli))
}

// parseRecordHeader reads the header of a record of that epoch; ok is false
// when p starts with anything else, such as zeros, half a header, or a record
// that the file held in an earlier life.
func parseRecordHeader(p []byte, epoch uint64) (r record, ok bool) {
	if len(p) < recordHeaderSize || binary.LittleEndian.Uint32(p) != recordMagic || !checksummed(p[:recordHeaderSize]) {
		return record{}, false
	}
	n := binary.LittleEndian.Uint32(p[4:])
	if n > b3.GroupSize || binary.LittleEndian.Uint64(p[8:]) != epoch {
		return record{}, false
	}
	return record{root: b3.Root(p[16:48]), length: int(n)}, true
}

// checksummed reports whether p ends with the CRC-32C of what comes before.
func checksummed(p []byte) bool {
	end := len(p) - 4
	return binary.LittleEndian.Uint32(p[end:]) == crc32.Checksum(p[:end], castagnoli)
}
