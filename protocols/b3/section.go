package b3

import (
	"errors"
	"io"
)

// Section streams a byte range of an object, proved group by group, from pooled
// buffers. While one group is used, the next one is read and proved, and no more
// than that one: see [ahead]. It is not for concurrent use; Close ends the
// reading and gives the buffers back.
type Section struct {
	r    *Reader
	walk *Walk  // the ahead's while there is one; nil: a short range, which r reads by itself
	mem  []byte // the object itself where it lies in RAM, proved; then walk is not used
	off  int64  // of the next byte
	end  int64
	buf  *[GroupSize]byte // nil before the first read and after Close
	next *ahead           // nil: groups are read in their turn
	rest []byte           // proved, of buf, not yet emitted
	err  error
}

var errSectionClosed = errors.New("b3: the section is closed")

// Section returns the bytes from start up to but without end, or to the end of
// the object when end is −1. What lies past the object's size is cut off; a
// malformed range is bad_range at the first read.
func (r *Reader) Section(start, end int64) *Section {
	var walk *Walk
	var err error
	switch ranges := []Range{{start, end}}; {
	case r.proved != nil:
		_, err = spans(r.size, ranges)
	case end >= 0 && end-start <= shortSection && end < r.size:
		_, err = spans(r.size, ranges)
	default:
		walk, err = r.Walk(ranges)
	}
	if err != nil {
		return &Section{err: err}
	}
	if end == -1 || end > r.size {
		end = r.size
	}
	return &Section{r: r, walk: walk, mem: r.proved, off: start, end: end}
}

// shortSection is up to how many bytes a range inside an object is read group by
// group, by the parents that the Reader has: a walk of its own would prove the
// path from the root for each range.
const shortSection = 4 * GroupSize

// Len is the number of bytes not yet read.
func (s *Section) Len() int64 { return max(0, s.end-s.off) }

// Read implements [io.Reader] over proved bytes.
func (s *Section) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if err := s.fill(); err != nil {
		return 0, err
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	s.off += int64(n)
	return n, nil
}

// Group returns what is left of the range in the group that comes next, or of
// the one that a Read began: good until the next call, and io.EOF at the end.
func (s *Section) Group() ([]byte, error) {
	if err := s.fill(); err != nil {
		return nil, err
	}
	p := s.rest
	s.rest = nil
	s.off += int64(len(p))
	return p, nil
}

// WriteTo implements [io.WriterTo]: w gets one Write for every group, its proved
// part of the range.
func (s *Section) WriteTo(w io.Writer) (int64, error) {
	from := s.off
	for {
		if err := s.fill(); errors.Is(err, io.EOF) {
			return s.off - from, nil
		} else if err != nil {
			return s.off - from, err
		}
		n, err := w.Write(s.rest)
		s.rest = s.rest[n:]
		s.off += int64(n)
		if err == nil && len(s.rest) > 0 {
			err = io.ErrShortWrite
		}
		if err != nil {
			return s.off - from, err
		}
	}
}

// Close ends the reading ahead, for which it waits, and gives the buffers back.
// It is idempotent; reads after it fail.
func (s *Section) Close() error {
	if s.next != nil {
		s.next.close()
		s.next = nil
	}
	if s.buf != nil {
		groupBuffers.Put(s.buf)
		s.buf, s.rest = nil, nil
	}
	s.err = errSectionClosed
	return nil
}

// fill makes rest non-empty, or says why it cannot.
func (s *Section) fill() error {
	if s.err != nil {
		return s.err
	}
	if s.mem != nil {
		return s.slice()
	}
	if s.walk == nil {
		return s.short()
	}
	for len(s.rest) == 0 {
		p, err := s.group()
		if err != nil {
			s.err = err
			return err
		}
		from := max(s.off-p.Offset(), 0)
		to := min(s.end-p.Offset(), int64(len(p.Data())))
		s.rest = p.Data()[from:to]
	}
	return nil
}

// group returns the next group, good until the next call.
func (s *Section) group() (Proved, error) {
	if s.next != nil {
		return s.next.group()
	}
	if s.buf == nil {
		s.buf = groupBuffers.Get().(*[GroupSize]byte)
	}
	p, err := s.r.fillWhole(s.walk, s.buf)
	if _, more := s.walk.Next(); err == nil && more {
		s.next = newAhead(s.walk, s.r, s.buf)
	}
	return p, err
}

// short makes rest the next group of a short range.
func (s *Section) short() error {
	if len(s.rest) > 0 {
		return nil
	}
	if s.off >= s.end {
		return io.EOF
	}
	if s.buf == nil {
		s.buf = groupBuffers.Get().(*[GroupSize]byte)
	}
	g := s.off / GroupSize
	data, err := s.r.ReadGroup(g, s.buf[:])
	if err != nil {
		s.err = err
		return err
	}
	s.rest = data[s.off-g*GroupSize : min(s.end-g*GroupSize, int64(len(data)))]
	return nil
}

// fillWhole is fillGroup into a buffer that does for parents too.
func (r *Reader) fillWhole(walk *Walk, buf *[GroupSize]byte) (Proved, error) {
	p, _, err := r.fillGroup(walk, (*[ParentSize]byte)(buf[:]), buf[:])
	return p, err
}

// slice makes rest the next group of an object in RAM.
func (s *Section) slice() error {
	if len(s.rest) > 0 {
		return nil
	}
	if s.off >= s.end {
		return io.EOF
	}
	s.rest = s.mem[s.off:min(s.end, (s.off/GroupSize+1)*GroupSize)]
	return nil
}
