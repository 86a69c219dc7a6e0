package b3

import (
	"errors"
	"io"
)

// Section streams a byte range of an object from pooled buffers and verifies it
// group by group. While the caller uses one group, the Section reads and verifies
// at most one more: see readAhead. It is not safe for concurrent use. The caller
// must call Close, which stops the reading and releases the buffers.
type Section struct {
	r    *Reader
	walk *Walk            // used by next if that is set; nil for a short range or an object in RAM
	mem  []byte           // the whole verified object, if it is in RAM
	off  int64            // position of the next byte
	end  int64            // position behind the last byte
	buf  *[GroupSize]byte // nil before the first read and after Close
	next *readAhead       // nil: the Section reads groups itself
	rest []byte           // verified bytes not yet returned
	err  error
}

var errSectionClosed = errors.New("the section is closed")

// Section returns a stream of the bytes [start, end). End −1 means the end of the
// object. The Section cuts off bytes past the object's size. For a malformed range
// its first read returns bad_range.
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

// shortSection is the most bytes of a range that is read with [Reader.ReadGroup].
// ReadGroup reuses the parents that the Reader has. A walk for each range would
// verify the path from the root each time. Ranges that reach the object's end
// always use a walk, which proves the size.
const shortSection = 4 * GroupSize

// Read implements [io.Reader]. It returns only verified bytes.
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

// Group returns the bytes of the range in the next group, or the rest of the group
// that a Read began. The bytes are valid until the next call. At the end the
// error is io.EOF.
func (s *Section) Group() ([]byte, error) {
	if err := s.fill(); err != nil {
		return nil, err
	}
	p := s.rest
	s.rest = nil
	s.off += int64(len(p))
	return p, nil
}

// WriteTo implements [io.WriterTo]. It calls Write once for each group, with the
// verified bytes of the range in that group.
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

// Close stops reading ahead, waits for a read in progress and releases the
// buffers. Later reads fail. Close may be called more than once; it returns nil.
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

// fill makes rest non-empty, or returns why it cannot.
func (s *Section) fill() error {
	if s.err != nil {
		return s.err
	}
	if s.mem != nil {
		return s.fillFromMemory()
	}
	if s.walk == nil {
		return s.fillShort()
	}
	for len(s.rest) == 0 {
		p, err := s.nextGroup()
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

// nextGroup returns the next group of the walk, valid until the next call.
func (s *Section) nextGroup() (Proved, error) {
	if s.next != nil {
		return s.next.nextGroup()
	}
	if s.buf == nil {
		s.buf = groupBuffers.Get().(*[GroupSize]byte)
	}
	p, err := s.r.fillGroupInto(s.walk, s.buf)
	if _, more := s.walk.Next(); err == nil && more {
		s.next = startReadAhead(s.walk, s.r, s.buf)
	}
	return p, err
}

// fillShort sets rest to the next group of a short range.
func (s *Section) fillShort() error {
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

// fillGroupInto calls fillGroup with one buffer for parents and group.
func (r *Reader) fillGroupInto(walk *Walk, buf *[GroupSize]byte) (Proved, error) {
	p, _, err := r.fillGroup(walk, (*[ParentSize]byte)(buf[:]), buf[:])
	return p, err
}

// fillFromMemory sets rest to the next group of an object in RAM.
func (s *Section) fillFromMemory() error {
	if len(s.rest) > 0 {
		return nil
	}
	if s.off >= s.end {
		return io.EOF
	}
	s.rest = s.mem[s.off:min(s.end, (s.off/GroupSize+1)*GroupSize)]
	return nil
}
