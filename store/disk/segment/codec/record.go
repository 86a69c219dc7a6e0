package codec

import (
	"encoding/binary"
	"hash/crc32"
	"time"

	"allium/protocols/b3"
	"allium/store/disk/tables"
	"allium/store/meta"
)

// Layout of a segment, which FORMAT.md defines byte by byte. Integers are little-endian.
// Formats 1 and 2 have shorter headers with fewer fields, format 3 has pins without targets; they
// are only read.
const (
	// SegmentHeaderSize is the length of a segment's header: magic[16], epoch u64,
	// before-segment u64, before-end u64, last-batch u64, zero[12], crc u32.
	SegmentHeaderSize = 64
	// RecordHeaderSize is the length of a record's header: magic u32, length u24, kind u8,
	// epoch u64, batch u64, remaining u32, added u32, root[32], crc u32.
	RecordHeaderSize = 68

	segmentMagic  = "allium segment 4"
	segmentMagic3 = "allium segment 3"
	recordMagic   = 0x33524c41 // "ALR3", also in format 4

	oldSegmentMagic      = "allium segment 1"
	oldSegmentHeaderSize = 32         // magic[16] epoch u64 zero u32 crc u32
	oldRecordMagic       = 0x31524c41 // "ALR1"
	oldRecordHeaderSize  = 56         // magic u32, length u24, kind u8, epoch u64, root[32], added u32, crc u32
)

// Kind is the kind of the change that a record makes in the store.
type Kind uint8

// Kinds of records.
const (
	KindObject    Kind = iota // a small object was stored; the body is its bytes
	KindFile                  // a large object was stored; the body is its size
	KindTombstone             // an object was removed; no body
	KindPin                   // a pin was set or changed; the body is the pin
	KindUnpin                 // a pin was dropped; the body is its label
	KindSegments              // a segment begins; the body lists the segments of the log
	KindRetired               // a segment left the log; the body is its number
)

// Sizes of the bodies that are not an object's bytes. No address proves them, so each
// ends with a CRC of the rest.
const (
	fileBodySize    = 8 + 4
	pinBodySize     = 1 + 8 + 4 // and the label, and the target before it
	unpinBodySize   = 1 + 4     // and the label
	retiredBodySize = 8 + 4

	// RetiredSize is the size of a KindRetired record in bytes, header included.
	RetiredSize = RecordHeaderSize + retiredBodySize
	// TargetSize is the size of a target in the record of a pin, in bytes: copies u8, data u8,
	// parity u8, number u64.
	TargetSize = 1 + 1 + 1 + 8
)

// Flags of a pin.
const (
	pinRecursive = 1
	pinTarget    = 2 // a target precedes the label
	pinReleased  = 4
)

// validLength reports whether a body of kind k may be n bytes long.
func (k Kind) validLength(n int) bool {
	switch k {
	case KindObject:
		return n <= b3.GroupSize
	case KindFile:
		return n == fileBodySize
	case KindTombstone:
		return n == 0
	case KindPin:
		return n >= pinBodySize && n <= pinBodySize+TargetSize+meta.MaxLabel
	case KindUnpin:
		return n >= unpinBodySize && n <= unpinBodySize+meta.MaxLabel
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
	Length int         // of the body, in bytes
	Added  meta.Second // when the object was stored; 0 when unknown, and for other kinds

	BatchNumber uint64 // 0 before format 3
	headerSize  int    // length of the record's header in bytes
	remaining   int64  // bytes of the batch behind this record
}

// Size returns the length of the record in bytes, header included.
func (r Record) Size() int64 { return int64(r.headerSize + r.Length) }

// encodeRecordHeader writes the header of r into p, for offset at of a segment with that
// epoch. The checksum covers the offset, so a copy of the record elsewhere, such as inside
// an object, does not parse.
func encodeRecordHeader(p []byte, epoch uint64, at int64, r Record) {
	binary.LittleEndian.PutUint32(p, recordMagic)
	binary.LittleEndian.PutUint32(p[4:], uint32(r.Length)|uint32(r.Kind)<<24)
	binary.LittleEndian.PutUint64(p[8:], epoch)
	binary.LittleEndian.PutUint64(p[16:], r.BatchNumber)
	binary.LittleEndian.PutUint32(p[24:], uint32(r.remaining))
	binary.LittleEndian.PutUint32(p[28:], uint32(r.Added))
	copy(p[32:], r.Root[:])
	binary.LittleEndian.PutUint32(p[64:], recordChecksum(p, at))
}

// recordChecksum returns the checksum of the record header in p at offset at: its CRC,
// combined with the offset.
func recordChecksum(p []byte, at int64) uint32 {
	return crc32.Checksum(p[:64], meta.Castagnoli) ^ uint32(at) ^ uint32(at>>32)
}

// decodeRecord parses the record header in p at offset at. ok is false for anything else:
// zeros, part of a header, or a record of another offset or of the file's earlier content.
func (h SegmentHeader) decodeRecord(p []byte, at int64) (r Record, ok bool) {
	if h.OldFormat {
		return h.decodeOldRecord(p)
	}
	if len(p) < RecordHeaderSize || binary.LittleEndian.Uint32(p) != recordMagic ||
		binary.LittleEndian.Uint64(p[8:]) != h.Epoch || binary.LittleEndian.Uint32(p[64:]) != recordChecksum(p, at) {
		return Record{}, false
	}
	n := binary.LittleEndian.Uint32(p[4:])
	r = Record{
		Kind: Kind(n >> 24), Length: int(n & 0xffffff), headerSize: RecordHeaderSize,
		BatchNumber: binary.LittleEndian.Uint64(p[16:]), remaining: int64(binary.LittleEndian.Uint32(p[24:])),
		Added: meta.Second(binary.LittleEndian.Uint32(p[28:])), Root: b3.Root(p[32:64]),
	}
	return r, r.Kind.validLength(r.Length)
}

// decodeOldRecord is decodeRecord for formats 1 and 2.
func (h SegmentHeader) decodeOldRecord(p []byte) (r Record, ok bool) {
	if len(p) < oldRecordHeaderSize || binary.LittleEndian.Uint32(p) != oldRecordMagic ||
		binary.LittleEndian.Uint64(p[8:]) != h.Epoch || !meta.Checksummed(p[:oldRecordHeaderSize]) {
		return Record{}, false
	}
	n := binary.LittleEndian.Uint32(p[4:])
	r = Record{
		Kind: Kind(n >> 24), Root: b3.Root(p[16:48]), Length: int(n & 0xffffff), headerSize: oldRecordHeaderSize,
		Added: meta.Second(binary.LittleEndian.Uint32(p[48:])),
	}
	return r, r.Kind <= KindUnpin && r.Kind.validLength(r.Length)
}

// File decodes the body of a KindFile record.
func (r Record) File(body []byte) (e meta.Entry, ok bool) {
	size := binary.LittleEndian.Uint64(body)
	if !meta.Checksummed(body) || size <= b3.GroupSize || size > b3.MaxSize {
		return meta.Entry{}, false
	}
	return meta.Entry{Root: r.Root, Size: int64(size), Added: r.Added}, true
}

// Pin decodes the body of a KindPin record.
func (r Record) Pin(body []byte) (p meta.Pin, ok bool) {
	if !meta.Checksummed(body) || body[0]&^(pinRecursive|pinTarget|pinReleased) != 0 {
		return meta.Pin{}, false
	}
	p = meta.Pin{
		Root: r.Root, Recursive: body[0]&pinRecursive != 0, Released: body[0]&pinReleased != 0,
		Created: time.Unix(int64(binary.LittleEndian.Uint64(body[1:])), 0).UTC(),
	}
	rest := body[9 : len(body)-4]
	if body[0]&pinTarget != 0 {
		if len(rest) < TargetSize {
			return meta.Pin{}, false
		}
		p.Target = meta.Target{
			Copies: int(rest[0]), Data: int(rest[1]), Parity: int(rest[2]), Seq: binary.LittleEndian.Uint64(rest[3:]),
		}
		rest = rest[TargetSize:]
	}
	p.Label = string(rest)
	ok = p.Target.Check() == nil && (p.Target.Seq > 0) == (body[0]&pinTarget != 0)
	ok = ok && (!p.Released || p.Target.Removed() && !p.Recursive)
	return p, ok && meta.CheckLabel(p.Label) == nil
}

// Unpin decodes the body of a KindUnpin record.
func (r Record) Unpin(body []byte) (label string, ok bool) {
	if !meta.Checksummed(body) || body[0] != 0 {
		return "", false
	}
	label = string(body[1 : len(body)-4])
	return label, meta.CheckLabel(label) == nil
}

// Retired decodes the body of a KindRetired record.
func (r Record) Retired(body []byte) (num uint64, ok bool) {
	return binary.LittleEndian.Uint64(body), meta.Checksummed(body)
}

// Segments decodes the body of a KindSegments record: the end of each segment, 0 when
// unknown.
func (r Record) Segments(body []byte) (ends map[uint64]int64, ok bool) {
	if !meta.Checksummed(body) {
		return nil, false
	}
	ends, err := tables.DecodeSegments(body[:len(body)-4])
	return ends, err == nil
}

// EntrySize returns the size in bytes of the record that stores e.
func EntrySize(e meta.Entry) int64 {
	if meta.Small(e.Size) {
		return RecordHeaderSize + e.Size
	}
	return RecordHeaderSize + fileBodySize
}

// PinSize returns the size in bytes of the record that sets p.
func PinSize(p meta.Pin) int64 {
	n := int64(RecordHeaderSize + pinBodySize + len(p.Label))
	if p.Target.Seq > 0 {
		n += TargetSize
	}
	return n
}

// UnpinSize returns the size in bytes of the record that drops a pin with that label.
func UnpinSize(label string) int64 { return int64(RecordHeaderSize + unpinBodySize + len(label)) }
