package store

import (
	"encoding/binary"
	"hash/crc32"
	"time"

	"allium/protocols/b3"
)

// Layout of a segment; FORMAT.md says it byte by byte. Integers are
// little-endian.
const (
	segmentMagic      = "allium segment 1"
	segmentHeaderSize = 32 // magic[16] epoch u64 zero u32 crc u32

	recordMagic      = 0x31524c41 // "ALR1"
	recordHeaderSize = 56         // magic u32, length u24, kind u8, epoch u64, root[32], added u32, crc u32
	maxRecordSize    = recordHeaderSize + b3.GroupSize
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// recordKind says what a record did to the store.
type recordKind uint8

const (
	kindObject    recordKind = iota // a small object came; the body is its bytes
	kindFile                        // a large object came; the body says its size
	kindTombstone                   // an object went; no body
	kindPin                         // a pin was set; the body says which
	kindUnpin                       // a pin was dropped; the body is its label
)

// Sizes of the bodies that are not an object's bytes. They end with a CRC of
// what comes before, as no address proves them.
const (
	fileBodySize = 8 + 4
	pinBodySize  = 1 + 8 + 4 // and the label
	unpinSize    = 1 + 4     // and the label
)

// fits reports whether a body of that kind may be n bytes long.
func (k recordKind) fits(n int) bool {
	switch k {
	case kindObject:
		return n <= b3.GroupSize
	case kindFile:
		return n == fileBodySize
	case kindTombstone:
		return n == 0
	case kindPin:
		return n >= pinBodySize && n <= pinBodySize+MaxLabel
	case kindUnpin:
		return n >= unpinSize && n <= unpinSize+MaxLabel
	}
	return false
}

// record is a decoded record header.
type record struct {
	kind   recordKind
	root   b3.Root
	length int    // of the body
	added  second // of an object
}

// size is the length of the record.
func (r record) size() int64 { return int64(recordHeaderSize + r.length) }

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
	binary.LittleEndian.PutUint32(p[4:], uint32(r.length)|uint32(r.kind)<<24)
	binary.LittleEndian.PutUint64(p[8:], epoch)
	copy(p[16:], r.root[:])
	binary.LittleEndian.PutUint32(p[48:], uint32(r.added))
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
	r = record{
		kind: recordKind(n >> 24), root: b3.Root(p[16:48]), length: int(n & 0xffffff),
		added: second(binary.LittleEndian.Uint32(p[48:])),
	}
	if !r.kind.fits(r.length) || binary.LittleEndian.Uint64(p[8:]) != epoch {
		return record{}, false
	}
	return r, true
}

// checksummed reports whether p ends with the CRC-32C of what comes before.
func checksummed(p []byte) bool {
	end := len(p) - 4
	return end >= 0 && binary.LittleEndian.Uint32(p[end:]) == crc32.Checksum(p[:end], castagnoli)
}

// beginRecord appends room for a header; endRecord fills it in.
func beginRecord(p []byte) []byte { return append(p, make([]byte, recordHeaderSize)...) }

// endRecord completes the record that begins at head of p: with the CRC of its
// body, if it has one, and its header.
func endRecord(p []byte, head int, epoch uint64, r record) []byte {
	if body := p[head+recordHeaderSize:]; len(body) > 0 {
		p = binary.LittleEndian.AppendUint32(p, crc32.Checksum(body, castagnoli))
	}
	r.length = len(p) - head - recordHeaderSize
	putRecordHeader(p[head:], epoch, r)
	return p
}

func appendTombstone(p []byte, epoch uint64, root b3.Root) []byte {
	return endRecord(beginRecord(p), len(p), epoch, record{kind: kindTombstone, root: root})
}

func appendFileRecord(p []byte, epoch uint64, e entry) []byte {
	head := len(p)
	p = binary.LittleEndian.AppendUint64(beginRecord(p), uint64(e.size))
	return endRecord(p, head, epoch, record{kind: kindFile, root: e.root, added: e.added})
}

func appendPinRecord(p []byte, epoch uint64, pin Pin) []byte {
	head := len(p)
	var flags byte
	if pin.Recursive {
		flags = flagRecursive
	}
	p = binary.LittleEndian.AppendUint64(append(beginRecord(p), flags), uint64(pin.Created.Unix()))
	return endRecord(append(p, pin.Label...), head, epoch, record{kind: kindPin, root: pin.Root})
}

// appendUnpinRecord writes a zero before the label, which may be empty.
func appendUnpinRecord(p []byte, epoch uint64, root b3.Root, label string) []byte {
	head := len(p)
	p = append(append(beginRecord(p), 0), label...)
	return endRecord(p, head, epoch, record{kind: kindUnpin, root: root})
}

// file reads the body of a kindFile.
func (r record) file(body []byte) (e entry, ok bool) {
	size := binary.LittleEndian.Uint64(body)
	if !checksummed(body) || size <= b3.GroupSize || size > b3.MaxSize {
		return entry{}, false
	}
	return entry{root: r.root, size: int64(size), added: r.added}, true
}

// pin reads the body of a kindPin.
func (r record) pin(body []byte) (p Pin, ok bool) {
	if !checksummed(body) || body[0]&^flagRecursive != 0 {
		return Pin{}, false
	}
	p = Pin{
		Root: r.root, Label: string(body[9 : len(body)-4]), Recursive: body[0] == flagRecursive,
		Created: time.Unix(int64(binary.LittleEndian.Uint64(body[1:])), 0).UTC(),
	}
	return p, CheckLabel(p.Label) == nil
}

// unpin reads the body of a kindUnpin.
func (r record) unpin(body []byte) (label string, ok bool) {
	if !checksummed(body) || body[0] != 0 {
		return "", false
	}
	label = string(body[1 : len(body)-4])
	return label, CheckLabel(label) == nil
}
