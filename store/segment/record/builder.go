package record

import (
	"encoding/binary"
	"hash/crc32"

	"allium/protocols/b3"
	"allium/store/meta"
)

// Builder makes the records of one batch. Their headers are written when it is
// known where they go and how long the batch is.
type Builder struct {
	buf  []byte
	made []Placed
}

// Placed is a record in a Builder.
type Placed struct {
	Record
	Off int // in the bytes
}

// Len is how many bytes the records have.
func (b *Builder) Len() int { return len(b.buf) }

// Bytes returns the records, good until the next change. Seal comes before.
func (b *Builder) Bytes() []byte { return b.buf }

// Records returns the records, good until the next change.
func (b *Builder) Records() []Placed { return b.made }

// Body returns the body of a record of b, good until the next change.
func (b *Builder) Body(p Placed) []byte {
	return b.buf[p.Off+HeadSize:][:p.Length]
}

// Reset removes every record and keeps the memory.
func (b *Builder) Reset() { b.buf, b.made = b.buf[:0], b.made[:0] }

// Seal writes the headers of the records, which go to offset at of a segment of
// that epoch. Behind them after bytes of the same batch follow.
func (b *Builder) Seal(epoch, number uint64, at, after int64) {
	for _, m := range b.made {
		r := m.Record
		r.Number, r.left = number, int64(len(b.buf)-m.Off)-r.Size()+after
		putRecordHeader(b.buf[m.Off:], epoch, at+int64(m.Off), r)
	}
}

// Stamp sets when the objects of b were stored.
func (b *Builder) Stamp(added meta.Second) {
	for i := range b.made {
		b.made[i].Added = added
	}
}

// begin appends space for a header, and end fills in the length of what was
// appended since.
func (b *Builder) begin(r Record) {
	r.head = HeadSize
	b.made = append(b.made, Placed{Record: r, Off: len(b.buf)})
	b.buf = append(b.buf, make([]byte, HeadSize)...)
}

func (b *Builder) end() {
	m := &b.made[len(b.made)-1]
	m.Length = len(b.buf) - m.Off - HeadSize
}

// endSummed is end for a body that no address proves: it gets a CRC.
func (b *Builder) endSummed() {
	body := b.buf[b.made[len(b.made)-1].Off+HeadSize:]
	b.buf = binary.LittleEndian.AppendUint32(b.buf, crc32.Checksum(body, meta.Castagnoli))
	b.end()
}

// Tombstone adds that an object went.
func (b *Builder) Tombstone(root b3.Root) {
	b.begin(Record{Kind: KindTombstone, Root: root})
	b.end()
}

// File adds that a large object came.
func (b *Builder) File(e meta.Entry) {
	b.begin(Record{Kind: KindFile, Root: e.Root, Added: e.Added})
	b.buf = binary.LittleEndian.AppendUint64(b.buf, uint64(e.Size))
	b.endSummed()
}

// Object adds that a small object came, with its bytes.
func (b *Builder) Object(e meta.Entry, body []byte) {
	b.begin(Record{Kind: KindObject, Root: e.Root, Added: e.Added})
	b.buf = append(b.buf, body...)
	b.end()
}

// Pin adds that a pin was set.
func (b *Builder) Pin(pin meta.Pin) {
	b.begin(Record{Kind: KindPin, Root: pin.Root})
	var flags byte
	if pin.Recursive {
		flags = pinRecursive
	}
	b.buf = binary.LittleEndian.AppendUint64(append(b.buf, flags), uint64(pin.Created.Unix()))
	b.buf = append(b.buf, pin.Label...)
	b.endSummed()
}

// Unpin adds that a pin was dropped. A zero is before the label, which may be
// empty.
func (b *Builder) Unpin(root b3.Root, label string) {
	b.begin(Record{Kind: KindUnpin, Root: root})
	b.buf = append(append(b.buf, 0), label...)
	b.endSummed()
}

// Retired adds that a segment went.
func (b *Builder) Retired(num uint64) {
	b.begin(Record{Kind: KindRetired})
	b.buf = binary.LittleEndian.AppendUint64(b.buf, num)
	b.endSummed()
}

// Segments adds a list of segments, encoded by [index.EncodeSegments].
func (b *Builder) Segments(list []byte) {
	b.begin(Record{Kind: KindSegments})
	b.buf = append(b.buf, list...)
	b.endSummed()
}
