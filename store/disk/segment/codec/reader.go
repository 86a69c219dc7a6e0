package codec

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"

	"allium/store/meta"
)

// Reader reads the records of one segment in order. Opening, rebuilding, checking and
// compacting all read the log through it. Where no record parses, it continues at the next
// one and adds the place to Holes. Whether a hole is the torn end of the log or damage is
// for the caller to decide, who knows what follows the segment.
//
// A record header contains the number of its batch and how many bytes of the batch follow.
// So the next record is in the same batch up to the batch's end, and behind that in a later
// batch. A record that a failed write left behind is in neither, and is skipped.
//
// A Reader is not safe for concurrent use. It does not close the file.
type Reader struct {
	BatchNumber uint64 // of the last record that was read
	BatchStart  int64  // offset where that batch begins, as far as that is known
	BatchEnd    int64  // offset where that batch ends
	End         int64  // offset behind the last record that was read
	Records     int64  // how many records were read
	Holes       []Hole // places that could not be read, at most maxHoles

	f         io.ReaderAt
	header    SegmentHeader
	size      int64 // of the file
	buf       *bufio.Reader
	offset    int64 // where the next record should be
	onlyZeros bool  // set at the end: only zeros follow End
}

// Hole is a place in a segment where no record could be read although others follow. When
// Mended is set, it is the header of a record that was repaired and returned.
type Hole struct {
	Off, Length int64
	Mended      bool
}

// maxHoles bounds how many holes of one segment are listed. Later ones extend the last.
const maxHoles = 256

// readBuffer is the size of the read buffer in bytes. It holds the longest record.
const readBuffer = 256 << 10

// NewReader returns a reader of f, a file of size bytes with header h. The first record is
// at offset from, in a batch later than number.
func NewReader(f io.ReaderAt, h SegmentHeader, from int64, number uint64, size int64) *Reader {
	return &Reader{
		f: f, header: h, size: size, offset: from, End: from, BatchNumber: number, BatchStart: from, BatchEnd: from,
		buf: bufio.NewReaderSize(io.NewSectionReader(f, from, max(0, size-from)), readBuffer),
	}
}

// Next returns the next record, its body, and the offset of the body in the file. The body
// is valid until the next call. At the end of the segment, body is nil.
func (s *Reader) Next() (rec Record, body []byte, off int64, err error) {
	for {
		rec, body, err = s.peek()
		if err != nil {
			return Record{}, nil, 0, err
		}
		if body != nil {
			break
		}
		if s.onlyZeros, err = OnlyZerosFrom(s.f, s.offset, s.size); err != nil || s.onlyZeros {
			s.onlyZeros = s.onlyZeros && s.offset == s.End
			return Record{}, nil, 0, err
		}
		next, err := s.findNext()
		if err != nil || next < 0 {
			return Record{}, nil, 0, err
		}
		s.addHole(Hole{Off: s.offset, Length: next - s.offset})
		s.seek(next)
	}
	off = s.offset + int64(rec.headerSize)
	if rec.BatchNumber != s.BatchNumber {
		s.BatchNumber, s.BatchStart = rec.BatchNumber, min(s.offset, max(s.BatchEnd, s.End))
		if s.header.OldFormat {
			s.BatchStart = s.offset
		}
	}
	s.Records++
	s.End = s.offset + rec.Size()
	s.BatchEnd = s.End + rec.remaining
	s.offset = s.End
	return rec, body, off, nil
}

// peek reads the record at s.offset. body is nil when no whole record is there.
func (s *Reader) peek() (rec Record, body []byte, err error) {
	head, err := s.peekBytes(s.header.recordHeaderSize())
	if err != nil {
		return Record{}, nil, err
	}
	rec, ok := s.header.decodeRecord(head, s.offset)
	mended := false
	if !ok || !s.fitsBatch(rec) {
		if len(head) < 4 || binary.LittleEndian.Uint32(head) == 0 {
			return Record{}, nil, nil
		}
		if rec, mended = s.header.mendRecord(head, s.offset, s.plausible); !mended {
			return Record{}, nil, nil
		}
	}
	// peekBytes fills the buffer, and Discard does not change it: the body stays valid.
	p, err := s.peekBytes(int(rec.Size()))
	if err != nil || int64(len(p)) < rec.Size() {
		return Record{}, nil, err
	}
	if _, err := s.buf.Discard(len(p)); err != nil {
		return Record{}, nil, meta.ReadError(err)
	}
	if mended {
		s.addHole(Hole{Off: s.offset, Length: int64(rec.headerSize), Mended: true})
	}
	return rec, p[rec.headerSize:], nil
}

// peekBytes returns the next n buffered bytes, or fewer at the end of the file.
func (s *Reader) peekBytes(n int) ([]byte, error) {
	p, err := s.buf.Peek(n)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, meta.ReadError(err)
	}
	return p, nil
}

// fitsBatch reports whether rec can follow the record that was read last.
func (s *Reader) fitsBatch(rec Record) bool {
	if s.header.OldFormat {
		return true
	}
	if s.offset < s.BatchEnd {
		return rec.BatchNumber == s.BatchNumber && s.offset+rec.Size()+rec.remaining == s.BatchEnd
	}
	return rec.BatchNumber > s.BatchNumber
}

// plausible is fitsBatch for a repaired header. It also bounds the gap in batch numbers:
// numbers are consecutive, except for batches that could not be written.
func (s *Reader) plausible(rec Record) bool {
	return s.fitsBatch(rec) && (s.header.OldFormat || rec.BatchNumber-s.BatchNumber <= 64)
}

// addHole adds a hole, or extends the last one when there are maxHoles.
func (s *Reader) addHole(h Hole) {
	if len(s.Holes) < maxHoles {
		s.Holes = append(s.Holes, h)
		return
	}
	last := &s.Holes[len(s.Holes)-1]
	last.Length = h.Off + h.Length - last.Off
	last.Mended = last.Mended && h.Mended
}

// seek continues reading at offset at.
func (s *Reader) seek(at int64) {
	s.offset = at
	s.buf.Reset(io.NewSectionReader(s.f, at, max(0, s.size-at)))
}

// findNext returns the offset of the next record behind s.offset, or -1 for none. A copy of
// a record inside an object's body does not count, as its checksum covers another offset.
func (s *Reader) findNext() (int64, error) {
	magic := uint32(recordMagic)
	if s.header.OldFormat {
		magic = oldRecordMagic
	}
	pattern := binary.LittleEndian.AppendUint32(nil, magic)
	head := s.header.recordHeaderSize()
	buf := make([]byte, 1<<20)
	was := s.offset
	defer func() { s.offset = was }()
	for from := was + 1; from < s.size; {
		n, err := s.f.ReadAt(buf[:min(int64(len(buf)), s.size-from)], from)
		if err != nil && !errors.Is(err, io.EOF) {
			return -1, meta.ReadError(err)
		}
		if n < head {
			return -1, nil
		}
		p := buf[:n]
		for i := 0; i+head <= n; i++ {
			j := bytes.Index(p[i:n-head+len(pattern)], pattern)
			if j < 0 {
				break
			}
			i += j
			s.offset = from + int64(i)
			if rec, ok := s.header.decodeRecord(p[i:], s.offset); ok && s.fitsBatch(rec) &&
				s.offset+rec.Size() <= s.size {
				return s.offset, nil
			}
		}
		from += int64(n - head + 1)
	}
	return -1, nil
}

// Torn reports whether the last batch is incomplete, or is followed by bytes that are no
// record. Next must have returned a nil body.
func (s *Reader) Torn() bool { return !s.onlyZeros || s.End < s.BatchEnd }

// OnlyZerosFrom reports whether f, a file of size bytes, holds only zeros from offset at
// on.
func OnlyZerosFrom(f io.ReaderAt, at, size int64) (bool, error) {
	buf := make([]byte, 64<<10)
	for at < size {
		n, err := f.ReadAt(buf[:min(int64(len(buf)), size-at)], at)
		if err != nil && !errors.Is(err, io.EOF) {
			return false, meta.ReadError(err)
		}
		if n == 0 {
			return true, nil // the file is shorter than size
		}
		if len(bytes.TrimLeft(buf[:n], "\x00")) > 0 {
			return false, nil
		}
		at += int64(n)
	}
	return true, nil
}
