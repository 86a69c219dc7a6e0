package codec

import (
	"encoding/binary"
	"hash/crc32"

	"allium/protocols/b3"
	"allium/store/meta"
)

// Builder encodes the records of one batch in memory. Seal writes their headers when the
// offset of the batch and its length are known. The zero value is ready to use. It is not
// safe for concurrent use.
type Builder struct {
	buf    []byte
	placed []Placed
}

// Placed is a record in a Builder, with the offset of its header in Bytes.
type Placed struct {
	Record
	Off int
}

// Len returns the total length of the records in bytes.
func (b *Builder) Len() int { return len(b.buf) }

// Bytes returns the encoded records. The slice is valid until the Builder changes. The
// headers are blank until Seal.
func (b *Builder) Bytes() []byte { return b.buf }

// Records returns the records in the order they were added. The slice is valid until the
// Builder changes.
func (b *Builder) Records() []Placed { return b.placed }

// Body returns the body of p, a record of b. The slice is valid until the Builder changes.
func (b *Builder) Body(p Placed) []byte {
	return b.buf[p.Off+RecordHeaderSize:][:p.Length]
}

// Reset removes every record and keeps the allocated memory.
func (b *Builder) Reset() { b.buf, b.placed = b.buf[:0], b.placed[:0] }

// Seal writes the record headers for a batch with that number, which goes to offset at of a
// segment with that epoch. The batch continues with after more bytes behind these records.
func (b *Builder) Seal(epoch, number uint64, at, after int64) {
	for _, m := range b.placed {
		r := m.Record
		r.BatchNumber, r.remaining = number, int64(len(b.buf)-m.Off)-r.Size()+after
		encodeRecordHeader(b.buf[m.Off:], epoch, at+int64(m.Off), r)
	}
}

// SetAdded sets the time at which the objects of b were stored.
func (b *Builder) SetAdded(added meta.Second) {
	for i := range b.placed {
		b.placed[i].Added = added
	}
}

// beginRecord appends a blank header. The caller appends the body and calls endRecord or
// endWithCRC.
func (b *Builder) beginRecord(r Record) {
	r.headerSize = RecordHeaderSize
	b.placed = append(b.placed, Placed{Record: r, Off: len(b.buf)})
	b.buf = append(b.buf, make([]byte, RecordHeaderSize)...)
}

// endRecord sets the body length of the last record.
func (b *Builder) endRecord() {
	m := &b.placed[len(b.placed)-1]
	m.Length = len(b.buf) - m.Off - RecordHeaderSize
}

// endWithCRC appends a CRC to the body and ends the record. Every body that no address
// proves has one.
func (b *Builder) endWithCRC() {
	body := b.buf[b.placed[len(b.placed)-1].Off+RecordHeaderSize:]
	b.buf = binary.LittleEndian.AppendUint32(b.buf, crc32.Checksum(body, meta.Castagnoli))
	b.endRecord()
}

// Tombstone adds the removal of an object.
func (b *Builder) Tombstone(root b3.Root) {
	b.beginRecord(Record{Kind: KindTombstone, Root: root})
	b.endRecord()
}

// File adds a large object, whose bytes are in a file.
func (b *Builder) File(e meta.Entry) {
	b.beginRecord(Record{Kind: KindFile, Root: e.Root, Added: e.Added})
	b.buf = binary.LittleEndian.AppendUint64(b.buf, uint64(e.Size))
	b.endWithCRC()
}

// Object adds a small object with its bytes.
func (b *Builder) Object(e meta.Entry, body []byte) {
	b.beginRecord(Record{Kind: KindObject, Root: e.Root, Added: e.Added})
	b.buf = append(b.buf, body...)
	b.endRecord()
}

// Pin adds a pin that was set or changed.
func (b *Builder) Pin(pin meta.Pin) {
	b.beginRecord(Record{Kind: KindPin, Root: pin.Root})
	var flags byte
	if pin.Recursive {
		flags |= pinRecursive
	}
	if pin.Released {
		flags |= pinReleased
	}
	t := pin.Target
	if t.Seq > 0 {
		flags |= pinTarget
	}
	b.buf = binary.LittleEndian.AppendUint64(append(b.buf, flags), uint64(pin.Created.Unix()))
	if t.Seq > 0 {
		b.buf = append(b.buf, byte(t.Copies), byte(t.Data), byte(t.Parity))
		b.buf = binary.LittleEndian.AppendUint64(b.buf, t.Seq)
	}
	b.buf = append(b.buf, pin.Label...)
	b.endWithCRC()
}

// Unpin adds a pin that was dropped. A zero byte precedes the label, which may be empty.
func (b *Builder) Unpin(root b3.Root, label string) {
	b.beginRecord(Record{Kind: KindUnpin, Root: root})
	b.buf = append(append(b.buf, 0), label...)
	b.endWithCRC()
}

// Retired adds that segment num left the log.
func (b *Builder) Retired(num uint64) {
	b.beginRecord(Record{Kind: KindRetired})
	b.buf = binary.LittleEndian.AppendUint64(b.buf, num)
	b.endWithCRC()
}

// Segments adds the list of segments that [index.EncodeSegments] encoded.
func (b *Builder) Segments(list []byte) {
	b.beginRecord(Record{Kind: KindSegments})
	b.buf = append(b.buf, list...)
	b.endWithCRC()
}
