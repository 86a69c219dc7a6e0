package record

import (
	"encoding/binary"
	"hash/crc32"
	"time"

	"allium/protocols/b3"
	"allium/store/index"
	"allium/store/meta"
)

// Layout of a segment; FORMAT.md says it byte by byte. Integers are
// little-endian. Segments of format 1 and 2 have shorter headers, which say
// less; they are read, and not written any more.
const (
	// HeaderSize is the length of a segment's header: magic[16], epoch u64, before-segment
	// u64, before-end u64, before-batch u64, zero[12], crc u32.
	HeaderSize = 64
	// HeadSize is the length of a record's header: magic u32, length u24, kind u8, epoch
	// u64, batch u64, left u32, added u32, root[32], crc u32.
	HeadSize = 68
	// MaxSize is the length of the longest record.
	MaxSize = HeadSize + b3.GroupSize

	fileMagic   = "allium segment 3"
	recordMagic = 0x33524c41 // "ALR3"

	oldFileMagic        = "allium segment 1"
	oldHeaderSize       = 32         // magic[16] epoch u64 zero u32 crc u32
	oldRecordMagic      = 0x31524c41 // "ALR1"
	oldRecordHeaderSize = 56         // magic u32, length u24, kind u8, epoch u64, root[32], added u32, crc u32
)

// Kind says what a record did to the store.
type Kind uint8

// Kinds of records.
const (
	KindObject    Kind = iota // a small object came; the body is its bytes
	KindFile                  // a large object came; the body says its size
	KindTombstone             // an object went; no body
	KindPin                   // a pin was set; the body says which
	KindUnpin                 // a pin was dropped; the body is its label
	KindSegments              // a segment begins; the body lists those before it
	KindRetired               // a segment went; the body is its number
)

// Sizes of the bodies that are not an object's bytes. They end with a CRC of
// what comes before, as no address proves them.
const (
	fileBodySize    = 8 + 4
	pinBodySize     = 1 + 8 + 4 // and the label
	unpinSize       = 1 + 4     // and the label
	retiredBodySize = 8 + 4

	// RetiredSize is the size of a record of KindRetired.
	RetiredSize = HeadSize + retiredBodySize
)

// pinRecursive is the flag of a recursive pin, in its body.
const pinRecursive = 1

// fits reports whether a body of that kind may be n bytes long.
func (k Kind) fits(n int) bool {
	switch k {
	case KindObject:
		return n <= b3.GroupSize
	case KindFile:
		return n == fileBodySize
	case KindTombstone:
		return n == 0
	case KindPin:
		return n >= pinBodySize && n <= pinBodySize+meta.MaxLabel
	case KindUnpin:
		return n >= unpinSize && n <= unpinSize+meta.MaxLabel
	case KindSegments:
		return n >= 4 && n <= b3.GroupSize
	case KindRetired:
		return n == retiredBodySize
	}
	return false
}

// Record is a decoded record header.
type Record struct {
	Kind   Kind
	Root   b3.Root
	Length int         // of the body
	Added  meta.Second // of an object

	head   int    // bytes of the header
	Number uint64 // of the batch; 0 before format 3
	left   int64  // bytes of the batch behind this record
}

// Size is the length of the record.
func (r Record) Size() int64 { return int64(r.head + r.Length) }

// putRecordHeader writes the header of a record that is at offset at of a
// segment of that epoch into p. The offset is part of the checksum: a copy of
// the record elsewhere, such as in the body of an object, is none.
func putRecordHeader(p []byte, epoch uint64, at int64, r Record) {
	binary.LittleEndian.PutUint32(p, recordMagic)
	binary.LittleEndian.PutUint32(p[4:], uint32(r.Length)|uint32(r.Kind)<<24)
	binary.LittleEndian.PutUint64(p[8:], epoch)
	binary.LittleEndian.PutUint64(p[16:], r.Number)
	binary.LittleEndian.PutUint32(p[24:], uint32(r.left))
	binary.LittleEndian.PutUint32(p[28:], uint32(r.Added))
	copy(p[32:], r.Root[:])
	binary.LittleEndian.PutUint32(p[64:], recordSum(p, at))
}

// recordSum is the checksum of the record header in p at offset at: its CRC, and
// the offset, which no other place of the segment shares.
func recordSum(p []byte, at int64) uint32 {
	return crc32.Checksum(p[:64], meta.Castagnoli) ^ uint32(at) ^ uint32(at>>32)
}

// record reads the header of a record at offset at; ok is false when p starts
// with anything else, such as zeros, half a header, or a record that the file
// held in an earlier life or elsewhere.
func (h Header) record(p []byte, at int64) (r Record, ok bool) {
	if h.Old {
		return h.oldRecord(p)
	}
	if len(p) < HeadSize || binary.LittleEndian.Uint32(p) != recordMagic ||
		binary.LittleEndian.Uint64(p[8:]) != h.Epoch || binary.LittleEndian.Uint32(p[64:]) != recordSum(p, at) {
		return Record{}, false
	}
	n := binary.LittleEndian.Uint32(p[4:])
	r = Record{
		Kind: Kind(n >> 24), Length: int(n & 0xffffff), head: HeadSize,
		Number: binary.LittleEndian.Uint64(p[16:]), left: int64(binary.LittleEndian.Uint32(p[24:])),
		Added: meta.Second(binary.LittleEndian.Uint32(p[28:])), Root: b3.Root(p[32:64]),
	}
	return r, r.Kind.fits(r.Length)
}

// oldRecord is record for segments of format 1 and 2.
func (h Header) oldRecord(p []byte) (r Record, ok bool) {
	if len(p) < oldRecordHeaderSize || binary.LittleEndian.Uint32(p) != oldRecordMagic ||
		binary.LittleEndian.Uint64(p[8:]) != h.Epoch || !meta.Checksummed(p[:oldRecordHeaderSize]) {
		return Record{}, false
	}
	n := binary.LittleEndian.Uint32(p[4:])
	r = Record{
		Kind: Kind(n >> 24), Root: b3.Root(p[16:48]), Length: int(n & 0xffffff), head: oldRecordHeaderSize,
		Added: meta.Second(binary.LittleEndian.Uint32(p[48:])),
	}
	return r, r.Kind <= KindUnpin && r.Kind.fits(r.Length)
}

// File reads the body of a KindFile.
func (r Record) File(body []byte) (e meta.Entry, ok bool) {
	size := binary.LittleEndian.Uint64(body)
	if !meta.Checksummed(body) || size <= b3.GroupSize || size > b3.MaxSize {
		return meta.Entry{}, false
	}
	return meta.Entry{Root: r.Root, Size: int64(size), Added: r.Added}, true
}

// Pin reads the body of a KindPin.
func (r Record) Pin(body []byte) (p meta.Pin, ok bool) {
	if !meta.Checksummed(body) || body[0]&^pinRecursive != 0 {
		return meta.Pin{}, false
	}
	p = meta.Pin{
		Root: r.Root, Label: string(body[9 : len(body)-4]), Recursive: body[0] == pinRecursive,
		Created: time.Unix(int64(binary.LittleEndian.Uint64(body[1:])), 0).UTC(),
	}
	return p, meta.CheckLabel(p.Label) == nil
}

// Unpin reads the body of a KindUnpin.
func (r Record) Unpin(body []byte) (label string, ok bool) {
	if !meta.Checksummed(body) || body[0] != 0 {
		return "", false
	}
	label = string(body[1 : len(body)-4])
	return label, meta.CheckLabel(label) == nil
}

// Retired reads the body of a KindRetired.
func (r Record) Retired(body []byte) (num uint64, ok bool) {
	return binary.LittleEndian.Uint64(body), meta.Checksummed(body)
}

// Segments reads the body of a KindSegments.
func (r Record) Segments(body []byte) (ends map[uint64]int64, ok bool) {
	if !meta.Checksummed(body) {
		return nil, false
	}
	ends, err := index.DecodeSegments(body[:len(body)-4])
	return ends, err == nil
}

// SizeOf is the size of the record of e.
func SizeOf(e meta.Entry) int64 {
	if meta.Small(e.Size) {
		return HeadSize + e.Size
	}
	return HeadSize + fileBodySize
}

// PinSize is the size of the record of a pin.
func PinSize(label string) int64 {
	return int64(HeadSize + pinBodySize + len(label))
}

// UnpinSize is the size of the record of a pin that was dropped.
func UnpinSize(label string) int64 { return int64(HeadSize + unpinSize + len(label)) }
