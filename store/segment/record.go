package segment

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
	fileMagic  = "allium segment 3"
	headerSize = 64 // magic[16] epoch u64 before-segment u64 before-end u64 before-batch u64 zero[12] crc u32

	recordMagic      = 0x33524c41 // "ALR3"
	recordHeaderSize = 68         // magic u32, length u24, kind u8, epoch u64, batch u64, left u32, added u32, root[32], crc u32
	MaxRecordSize    = recordHeaderSize + b3.GroupSize

	oldFileMagic        = "allium segment 1"
	oldHeaderSize       = 32         // magic[16] epoch u64 zero u32 crc u32
	oldRecordMagic      = 0x31524c41 // "ALR1"
	oldRecordHeaderSize = 56         // magic u32, length u24, kind u8, epoch u64, root[32], added u32, crc u32
)

// recordKind says what a record did to the store.
type recordKind uint8

const (
	kindObject    recordKind = iota // a small object came; the body is its bytes
	kindFile                        // a large object came; the body says its size
	kindTombstone                   // an object went; no body
	kindPin                         // a pin was set; the body says which
	kindUnpin                       // a pin was dropped; the body is its label
	kindSegments                    // a segment begins; the body lists those before it
	kindRetired                     // a segment went; the body is its number
)

// Sizes of the bodies that are not an object's bytes. They end with a CRC of
// what comes before, as no address proves them.
const (
	fileBodySize    = 8 + 4
	pinBodySize     = 1 + 8 + 4 // and the label
	unpinSize       = 1 + 4     // and the label
	retiredBodySize = 8 + 4
)

// pinRecursive is the flag of a recursive pin, in its body.
const pinRecursive = 1

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
		return n >= pinBodySize && n <= pinBodySize+meta.MaxLabel
	case kindUnpin:
		return n >= unpinSize && n <= unpinSize+meta.MaxLabel
	case kindSegments:
		return n >= 4 && n <= b3.GroupSize
	case kindRetired:
		return n == retiredBodySize
	}
	return false
}

// record is a decoded record header.
type record struct {
	kind   recordKind
	root   b3.Root
	length int         // of the body
	added  meta.Second // of an object

	head   int    // bytes of the header
	number uint64 // of the batch; 0 before format 3
	left   int64  // bytes of the batch behind this record
}

// size is the length of the record.
func (r record) size() int64 { return int64(r.head + r.length) }

// header is what a segment says of itself.
type header struct {
	old    bool // of format 1 or 2: records have no batch, and nothing is said of the segment before
	epoch  uint64
	before index.Position // where the segment before this one ends; 0 for none
	batch  uint64         // number of the last batch before this segment
}

// size is the length of the header, behind which the first record is.
func (h header) size() int64 {
	if h.old {
		return oldHeaderSize
	}
	return headerSize
}

// recordSize is the length of a record's header.
func (h header) recordSize() int {
	if h.old {
		return oldRecordHeaderSize
	}
	return recordHeaderSize
}

// put writes the header of a segment into p.
func (h header) put(p []byte) {
	clear(p[:headerSize])
	copy(p, fileMagic)
	binary.LittleEndian.PutUint64(p[16:], h.epoch)
	binary.LittleEndian.PutUint64(p[24:], h.before.Seg)
	binary.LittleEndian.PutUint64(p[32:], uint64(h.before.Off))
	binary.LittleEndian.PutUint64(p[40:], h.batch)
	binary.LittleEndian.PutUint32(p[60:], crc32.Checksum(p[:60], meta.Castagnoli))
}

// parseHeader reads the header of a segment; ok is false when it is
// none.
func parseHeader(p []byte) (h header, ok bool) {
	switch {
	case len(p) >= headerSize && string(p[:16]) == fileMagic && meta.Checksummed(p[:headerSize]):
		h = header{
			epoch: binary.LittleEndian.Uint64(p[16:]), batch: binary.LittleEndian.Uint64(p[40:]),
			before: index.Position{Seg: binary.LittleEndian.Uint64(p[24:]), Off: int64(binary.LittleEndian.Uint64(p[32:]))},
		}
		return h, h.before.Off >= 0 && h.before.Off <= meta.MaxSegmentBytes
	case len(p) >= oldHeaderSize && string(p[:16]) == oldFileMagic && meta.Checksummed(p[:oldHeaderSize]):
		return header{old: true, epoch: binary.LittleEndian.Uint64(p[16:])}, true
	}
	return header{}, false
}

// putRecordHeader writes the header of a record that is at offset at of a
// segment of that epoch into p. The offset is part of the checksum: a copy of
// the record elsewhere, such as in the body of an object, is none.
func putRecordHeader(p []byte, epoch uint64, at int64, r record) {
	binary.LittleEndian.PutUint32(p, recordMagic)
	binary.LittleEndian.PutUint32(p[4:], uint32(r.length)|uint32(r.kind)<<24)
	binary.LittleEndian.PutUint64(p[8:], epoch)
	binary.LittleEndian.PutUint64(p[16:], r.number)
	binary.LittleEndian.PutUint32(p[24:], uint32(r.left))
	binary.LittleEndian.PutUint32(p[28:], uint32(r.added))
	copy(p[32:], r.root[:])
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
func (h header) record(p []byte, at int64) (r record, ok bool) {
	if h.old {
		return h.oldRecord(p)
	}
	if len(p) < recordHeaderSize || binary.LittleEndian.Uint32(p) != recordMagic ||
		binary.LittleEndian.Uint64(p[8:]) != h.epoch || binary.LittleEndian.Uint32(p[64:]) != recordSum(p, at) {
		return record{}, false
	}
	n := binary.LittleEndian.Uint32(p[4:])
	r = record{
		kind: recordKind(n >> 24), length: int(n & 0xffffff), head: recordHeaderSize,
		number: binary.LittleEndian.Uint64(p[16:]), left: int64(binary.LittleEndian.Uint32(p[24:])),
		added: meta.Second(binary.LittleEndian.Uint32(p[28:])), root: b3.Root(p[32:64]),
	}
	return r, r.kind.fits(r.length)
}

// oldRecord is record for segments of format 1 and 2.
func (h header) oldRecord(p []byte) (r record, ok bool) {
	if len(p) < oldRecordHeaderSize || binary.LittleEndian.Uint32(p) != oldRecordMagic ||
		binary.LittleEndian.Uint64(p[8:]) != h.epoch || !meta.Checksummed(p[:oldRecordHeaderSize]) {
		return record{}, false
	}
	n := binary.LittleEndian.Uint32(p[4:])
	r = record{
		kind: recordKind(n >> 24), root: b3.Root(p[16:48]), length: int(n & 0xffffff), head: oldRecordHeaderSize,
		added: meta.Second(binary.LittleEndian.Uint32(p[48:])),
	}
	return r, r.kind <= kindUnpin && r.kind.fits(r.length)
}

// records are records that are being made, of one batch. Their headers are
// written when it is known where they go and how long the batch is.
type records struct {
	buf  []byte
	made []madeRecord
}

type madeRecord struct {
	record
	off int // in buf
}

// begin appends space for a header, and end fills in the length of what was
// appended since.
func (b *records) begin(r record) {
	r.head = recordHeaderSize
	b.made = append(b.made, madeRecord{record: r, off: len(b.buf)})
	b.buf = append(b.buf, make([]byte, recordHeaderSize)...)
}

func (b *records) end() {
	m := &b.made[len(b.made)-1]
	m.length = len(b.buf) - m.off - recordHeaderSize
}

// endSummed is end for a body that no address proves: it gets a CRC.
func (b *records) endSummed() {
	body := b.buf[b.made[len(b.made)-1].off+recordHeaderSize:]
	b.buf = binary.LittleEndian.AppendUint32(b.buf, crc32.Checksum(body, meta.Castagnoli))
	b.end()
}

func (b *records) reset() { b.buf, b.made = b.buf[:0], b.made[:0] }

// seal writes the headers of records that go to offset at, behind which after
// bytes of the same batch follow.
func (b *records) seal(epoch, number uint64, at, after int64) {
	for _, m := range b.made {
		r := m.record
		r.number, r.left = number, int64(len(b.buf)-m.off)-r.size()+after
		putRecordHeader(b.buf[m.off:], epoch, at+int64(m.off), r)
	}
}

func (b *records) tombstone(root b3.Root) {
	b.begin(record{kind: kindTombstone, root: root})
	b.end()
}

func (b *records) file(e meta.Entry) {
	b.begin(record{kind: kindFile, root: e.Root, added: e.Added})
	b.buf = binary.LittleEndian.AppendUint64(b.buf, uint64(e.Size))
	b.endSummed()
}

func (b *records) object(e meta.Entry, body []byte) {
	b.begin(record{kind: kindObject, root: e.Root, added: e.Added})
	b.buf = append(b.buf, body...)
	b.end()
}

func (b *records) pin(pin meta.Pin) {
	b.begin(record{kind: kindPin, root: pin.Root})
	var flags byte
	if pin.Recursive {
		flags = pinRecursive
	}
	b.buf = binary.LittleEndian.AppendUint64(append(b.buf, flags), uint64(pin.Created.Unix()))
	b.buf = append(b.buf, pin.Label...)
	b.endSummed()
}

// unpin writes a zero before the label, which may be empty.
func (b *records) unpin(root b3.Root, label string) {
	b.begin(record{kind: kindUnpin, root: root})
	b.buf = append(append(b.buf, 0), label...)
	b.endSummed()
}

func (b *records) retired(num uint64) {
	b.begin(record{kind: kindRetired})
	b.buf = binary.LittleEndian.AppendUint64(b.buf, num)
	b.endSummed()
}

func (b *records) segments(list []byte) {
	b.begin(record{kind: kindSegments})
	b.buf = append(b.buf, list...)
	b.endSummed()
}

// file reads the body of a kindFile.
func (r record) file(body []byte) (e meta.Entry, ok bool) {
	size := binary.LittleEndian.Uint64(body)
	if !meta.Checksummed(body) || size <= b3.GroupSize || size > b3.MaxSize {
		return meta.Entry{}, false
	}
	return meta.Entry{Root: r.root, Size: int64(size), Added: r.added}, true
}

// pin reads the body of a kindPin.
func (r record) pin(body []byte) (p meta.Pin, ok bool) {
	if !meta.Checksummed(body) || body[0]&^pinRecursive != 0 {
		return meta.Pin{}, false
	}
	p = meta.Pin{
		Root: r.root, Label: string(body[9 : len(body)-4]), Recursive: body[0] == pinRecursive,
		Created: time.Unix(int64(binary.LittleEndian.Uint64(body[1:])), 0).UTC(),
	}
	return p, meta.CheckLabel(p.Label) == nil
}

// unpin reads the body of a kindUnpin.
func (r record) unpin(body []byte) (label string, ok bool) {
	if !meta.Checksummed(body) || body[0] != 0 {
		return "", false
	}
	label = string(body[1 : len(body)-4])
	return label, meta.CheckLabel(label) == nil
}

// retired reads the body of a kindRetired.
func (r record) retired(body []byte) (num uint64, ok bool) {
	return binary.LittleEndian.Uint64(body), meta.Checksummed(body)
}

// segments reads the body of a kindSegments.
func (r record) segments(body []byte) (ends map[uint64]int64, ok bool) {
	if !meta.Checksummed(body) {
		return nil, false
	}
	ends, err := index.DecodeSegments(body[:len(body)-4])
	return ends, err == nil
}
