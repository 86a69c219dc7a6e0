package segment

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"

	"allium/store/meta"
)

// scanner reads the records of one segment, in order. Where no record can be
// read it goes on at the next one: opening, rebuilding, checking and compacting
// all read the log this way. What the places between mean, a torn tail or
// damage, is for the caller to judge, who knows what comes after the segment.
//
// A record tells its batch and how much of it follows. So the next record is in
// the same batch up to its end, and of a later one behind it; what a failed write
// left behind a shorter one is of neither.
type scanner struct {
	f    io.ReaderAt
	h    header
	size int64 // of the file
	r    *bufio.Reader

	at       int64  // where the next record should be
	number   uint64 // of the batch that was read last
	batchAt  int64  // where it begins, as far as that is known
	batchEnd int64  // where it ends
	end      int64  // of the last record that was read
	count    int64  // of records
	blank    bool   // only zeros follow end
	holes    []hole
}

// hole is a place in a segment where no record could be read, and behind which
// there are others. Of one that was mended, the record is known all the same.
type hole struct {
	off, length int64
	mended      bool
}

// maxHoles bounds what is remembered of one segment; what is beyond is part of
// the last one.
const maxHoles = 256

// scanRead is how much is read at a time; more than a record.
const scanRead = 256 << 10

// newScanner begins at offset from, where a record begins that is of a later
// batch than number.
func newScanner(f io.ReaderAt, h header, from int64, number uint64, size int64) *scanner {
	return &scanner{
		f: f, h: h, size: size, at: from, end: from, number: number, batchAt: from, batchEnd: from,
		r: bufio.NewReaderSize(io.NewSectionReader(f, from, max(0, size-from)), scanRead),
	}
}

// next returns the next record with its body, which is good until the following
// call, and the offset of the body. body is nil at the end.
func (s *scanner) next() (rec record, body []byte, off int64, err error) {
	for {
		rec, body, err = s.peek()
		if err != nil {
			return record{}, nil, 0, err
		}
		if body != nil {
			break
		}
		if s.blank, err = zerosBehind(s.f, s.at, s.size); err != nil || s.blank {
			s.blank = s.blank && s.at == s.end
			return record{}, nil, 0, err
		}
		next, err := s.resync()
		if err != nil || next < 0 {
			return record{}, nil, 0, err
		}
		s.note(hole{off: s.at, length: next - s.at})
		s.move(next)
	}
	off = s.at + int64(rec.head)
	if rec.number != s.number {
		s.number, s.batchAt = rec.number, min(s.at, max(s.batchEnd, s.end))
		if s.h.old {
			s.batchAt = s.at
		}
	}
	s.count++
	s.end = s.at + rec.size()
	s.batchEnd = s.end + rec.left
	s.at = s.end
	return rec, body, off, nil
}

// peek reads the record at the present place; body is nil when there is none, or
// only its beginning.
func (s *scanner) peek() (rec record, body []byte, err error) {
	head, err := s.look(s.h.recordSize())
	if err != nil {
		return record{}, nil, err
	}
	rec, ok := s.h.record(head, s.at)
	mended := false
	if !ok || !s.fits(rec) {
		if len(head) < 4 || binary.LittleEndian.Uint32(head) == 0 {
			return record{}, nil, nil
		}
		if rec, mended = s.h.mendRecord(head, s.at, s.likely); !mended {
			return record{}, nil, nil
		}
	}
	// Everything that was looked at is consumed here, so the body stays good.
	p, err := s.look(int(rec.size()))
	if err != nil || int64(len(p)) < rec.size() {
		return record{}, nil, err
	}
	if _, err := s.r.Discard(len(p)); err != nil {
		return record{}, nil, meta.ReadError(err)
	}
	if mended {
		s.note(hole{off: s.at, length: int64(rec.head), mended: true})
	}
	return rec, p[rec.head:], nil
}

func (s *scanner) look(n int) ([]byte, error) {
	p, err := s.r.Peek(n)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, meta.ReadError(err)
	}
	return p, nil
}

// fits reports whether rec can be at the present place.
func (s *scanner) fits(rec record) bool {
	if s.h.old {
		return true
	}
	if s.at < s.batchEnd {
		return rec.number == s.number && s.at+rec.size()+rec.left == s.batchEnd
	}
	return rec.number > s.number
}

// likely is fits for a header that was mended: batches are numbered one after the
// other, but for those that could not be written.
func (s *scanner) likely(rec record) bool {
	return s.fits(rec) && (s.h.old || rec.number-s.number <= 64)
}

// note remembers a hole.
func (s *scanner) note(h hole) {
	if len(s.holes) < maxHoles {
		s.holes = append(s.holes, h)
		return
	}
	last := &s.holes[len(s.holes)-1]
	last.length = h.off + h.length - last.off
	last.mended = last.mended && h.mended
}

// move goes on at offset at.
func (s *scanner) move(at int64) {
	s.at = at
	s.r.Reset(io.NewSectionReader(s.f, at, max(0, s.size-at)))
}

// resync finds the next record behind the present place, -1 for none. What is
// inside a body is none: it was not made for the place where it is.
func (s *scanner) resync() (int64, error) {
	magic := uint32(recordMagic)
	if s.h.old {
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
			if rec, ok := s.h.record(p[i:], s.at); ok && s.fits(rec) && s.at+rec.size() <= s.size {
				return s.at, nil
			}
		}
		from += int64(n - head + 1)
	}
	return -1, nil
}

// torn reports whether the last batch is not whole, or is followed by something
// that is no record.
func (s *scanner) torn() bool { return !s.blank || s.end < s.batchEnd }

// zerosBehind reports whether f holds nothing but zeros from offset at on.
func zerosBehind(f io.ReaderAt, at, size int64) (bool, error) {
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
