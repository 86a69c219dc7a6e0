package record

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"

	"allium/store/meta"
)

// Reader reads the records of one segment, in order. Where no record can be
// read it goes on at the next one: opening, rebuilding, checking and compacting
// all read the log this way. What the places between mean, a torn tail or
// damage, is for the caller to judge, who knows what comes after the segment.
//
// A record tells its batch and how much of it follows. So the next record is in
// the same batch up to its end, and of a later one behind it; what a failed write
// left behind a shorter one is of neither.
type Reader struct {
	Number   uint64 // of the batch that was read last
	BatchAt  int64  // where it begins, as far as that is known
	BatchEnd int64  // where it ends
	End      int64  // of the last record that was read
	Count    int64  // of records
	Holes    []Hole // places that could not be read

	f     io.ReaderAt
	h     Header
	size  int64 // of the file
	r     *bufio.Reader
	at    int64 // where the next record should be
	blank bool  // only zeros follow End
}

// Hole is a place in a segment where no record could be read, and behind which
// there are others. Of one that was mended, the record is known all the same.
type Hole struct {
	Off, Length int64
	Mended      bool
}

// maxHoles bounds what is remembered of one segment; what is beyond is part of
// the last one.
const maxHoles = 256

// readOnce is how much is read at a time; more than a record.
const readOnce = 256 << 10

// NewReader returns a reader that begins at offset from, where a record begins that
// is of a later batch than number.
func NewReader(f io.ReaderAt, h Header, from int64, number uint64, size int64) *Reader {
	return &Reader{
		f: f, h: h, size: size, at: from, End: from, Number: number, BatchAt: from, BatchEnd: from,
		r: bufio.NewReaderSize(io.NewSectionReader(f, from, max(0, size-from)), readOnce),
	}
}

// Next returns the next record with its body, which is good until the following
// call, and the offset of the body. body is nil at the end.
func (s *Reader) Next() (rec Record, body []byte, off int64, err error) {
	for {
		rec, body, err = s.peek()
		if err != nil {
			return Record{}, nil, 0, err
		}
		if body != nil {
			break
		}
		if s.blank, err = ZerosBehind(s.f, s.at, s.size); err != nil || s.blank {
			s.blank = s.blank && s.at == s.End
			return Record{}, nil, 0, err
		}
		next, err := s.resync()
		if err != nil || next < 0 {
			return Record{}, nil, 0, err
		}
		s.note(Hole{Off: s.at, Length: next - s.at})
		s.move(next)
	}
	off = s.at + int64(rec.head)
	if rec.Number != s.Number {
		s.Number, s.BatchAt = rec.Number, min(s.at, max(s.BatchEnd, s.End))
		if s.h.Old {
			s.BatchAt = s.at
		}
	}
	s.Count++
	s.End = s.at + rec.Size()
	s.BatchEnd = s.End + rec.left
	s.at = s.End
	return rec, body, off, nil
}

// peek reads the record at the present place; body is nil when there is none, or
// only its beginning.
func (s *Reader) peek() (rec Record, body []byte, err error) {
	head, err := s.look(s.h.recordSize())
	if err != nil {
		return Record{}, nil, err
	}
	rec, ok := s.h.record(head, s.at)
	mended := false
	if !ok || !s.fits(rec) {
		if len(head) < 4 || binary.LittleEndian.Uint32(head) == 0 {
			return Record{}, nil, nil
		}
		if rec, mended = s.h.mendRecord(head, s.at, s.likely); !mended {
			return Record{}, nil, nil
		}
	}
	// Everything that was looked at is consumed here, so the body stays good.
	p, err := s.look(int(rec.Size()))
	if err != nil || int64(len(p)) < rec.Size() {
		return Record{}, nil, err
	}
	if _, err := s.r.Discard(len(p)); err != nil {
		return Record{}, nil, meta.ReadError(err)
	}
	if mended {
		s.note(Hole{Off: s.at, Length: int64(rec.head), Mended: true})
	}
	return rec, p[rec.head:], nil
}

func (s *Reader) look(n int) ([]byte, error) {
	p, err := s.r.Peek(n)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, meta.ReadError(err)
	}
	return p, nil
}

// fits reports whether rec can be at the present place.
func (s *Reader) fits(rec Record) bool {
	if s.h.Old {
		return true
	}
	if s.at < s.BatchEnd {
		return rec.Number == s.Number && s.at+rec.Size()+rec.left == s.BatchEnd
	}
	return rec.Number > s.Number
}

// likely is fits for a header that was mended: batches are numbered one after the
// other, but for those that could not be written.
func (s *Reader) likely(rec Record) bool {
	return s.fits(rec) && (s.h.Old || rec.Number-s.Number <= 64)
}

// note remembers a hole.
func (s *Reader) note(h Hole) {
	if len(s.Holes) < maxHoles {
		s.Holes = append(s.Holes, h)
		return
	}
	last := &s.Holes[len(s.Holes)-1]
	last.Length = h.Off + h.Length - last.Off
	last.Mended = last.Mended && h.Mended
}

// move goes on at offset at.
func (s *Reader) move(at int64) {
	s.at = at
	s.r.Reset(io.NewSectionReader(s.f, at, max(0, s.size-at)))
}

// resync finds the next record behind the present place, -1 for none. What is
// inside a body is none: it was not made for the place where it is.
func (s *Reader) resync() (int64, error) {
	magic := uint32(recordMagic)
	if s.h.Old {
		magic = oldRecordMagic
	}
	pattern := binary.LittleEndian.AppendUint32(nil, magic)
	head := s.h.recordSize()
	buf := make([]byte, 1<<20)
	was := s.at
	defer func() { s.at = was }()
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
			s.at = from + int64(i)
			if rec, ok := s.h.record(p[i:], s.at); ok && s.fits(rec) && s.at+rec.Size() <= s.size {
				return s.at, nil
			}
		}
		from += int64(n - head + 1)
	}
	return -1, nil
}

// Torn reports whether the last batch is not whole, or is followed by something
// that is no record.
func (s *Reader) Torn() bool { return !s.blank || s.End < s.BatchEnd }

// ZerosBehind reports whether f holds nothing but zeros from offset at on.
func ZerosBehind(f io.ReaderAt, at, size int64) (bool, error) {
	buf := make([]byte, 64<<10)
	for at < size {
		n, err := f.ReadAt(buf[:min(int64(len(buf)), size-at)], at)
		if err != nil && !errors.Is(err, io.EOF) {
			return false, meta.ReadError(err)
		}
		if n == 0 {
			return true, nil // it is shorter than it was
		}
		if len(bytes.TrimLeft(buf[:n], "\x00")) > 0 {
			return false, nil
		}
		at += int64(n)
	}
	return true, nil
}
