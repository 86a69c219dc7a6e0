package store

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/protocols/b3"
)

// recover finds the end of the log. After an orderly close that is the
// watermark. Otherwise what follows the watermark is entered in the index:
// everything that was acknowledged is there, perhaps followed by the torn rest
// of a batch that was not. Whatever stands behind the last good record, the log
// goes on there only when it is all zeros; else in a new segment.
func (s *segments) recover(clean bool) error {
	w, err := s.watermark()
	if err != nil {
		return err
	}
	nums, err := s.list()
	if err != nil {
		return err
	}
	s.nextSeg = w.seg + 1
	if err := s.findSpares(clean); err != nil {
		return err
	}
	for _, num := range nums {
		s.nextSeg = max(s.nextSeg, num+1)
		if num < w.seg || clean && num > w.seg {
			continue
		}
		at := position{num, segmentHeaderSize}
		if num == w.seg {
			at = w
		}
		if w, err = s.resume(at, clean); err != nil {
			return fmt.Errorf("segment %s: %w", segmentName(num), err)
		}
	}
	if clean {
		return nil
	}
	return s.index.set(keyWatermark, encodePosition(w), true)
}

func (s *segments) watermark() (position, error) {
	v, done, ok, err := s.index.read(keyWatermark)
	if !ok {
		return position{}, err
	}
	defer done.Close()
	return decodePosition(v)
}

// sizes returns the segments on disk with the sizes of their files.
func (s *segments) sizes() (map[uint64]segmentUse, error) {
	nums, err := s.list()
	if err != nil {
		return nil, err
	}
	segs := map[uint64]segmentUse{}
	for _, num := range nums {
		info, err := s.fs.Stat(s.path(num))
		if err != nil {
			return nil, readError(err)
		}
		segs[num] = segmentUse{size: info.Size()}
	}
	return segs, nil
}

// list returns the numbers of the segments on disk, ascending.
func (s *segments) list() ([]uint64, error) {
	names, err := s.fs.List(s.dir)
	if err != nil {
		return nil, readError(err)
	}
	var nums []uint64
	for _, name := range names {
		if num, ok := parseSegmentName(name); ok {
			nums = append(nums, num)
		}
	}
	slices.Sort(nums)
	return nums, nil
}

// resume replays one segment from a position on and makes it the tail of the
// log if more can be appended. It returns where its last good record ends.
func (s *segments) resume(from position, clean bool) (position, error) {
	f, err := s.fs.OpenReadWrite(s.path(from.seg), vfs.WriteCategoryUnspecified)
	if err != nil {
		return from, readError(err)
	}
	end, blank := from.off, false
	size, epoch, ok, err := readSegmentHeader(f)
	if err == nil && ok { // else it was begun, and nothing in it was acknowledged
		if blank = clean; !clean {
			end, blank, err = s.replay(f, epoch, from, size)
		}
	}
	if err != nil || !blank {
		s.seal()
		_ = f.Close() // only read
	} else {
		s.begin(from.seg, epoch, f, end, size)
	}
	return position{from.seg, end}, err
}

// readSegmentHeader returns a segment's size and epoch; ok is false when it has
// no header.
func readSegmentHeader(f vfs.File) (size int64, epoch uint64, ok bool, err error) {
	info, err := f.Stat()
	if err != nil {
		return 0, 0, false, readError(err)
	}
	var header [segmentHeaderSize]byte
	if _, err := f.ReadAt(header[:], 0); err != nil && !errors.Is(err, io.EOF) {
		return 0, 0, false, readError(err)
	}
	epoch, ok = parseSegmentHeader(header[:])
	return info.Size(), epoch, ok, nil
}

// replay enters the records of f from offset from on in the index, in order:
// what a later one says counts. It returns where the last good one ends, and
// whether nothing but zeros follows. With an empty index, replaying all segments
// from their first record makes it anew.
//
// A record whose header is whole and whose body is damaged is passed over: what
// comes after it may have been acknowledged.
func (s *segments) replay(f io.ReaderAt, epoch uint64, from position, size int64) (end int64, blank bool, err error) {
	r := bufio.NewReaderSize(io.NewSectionReader(f, from.off, max(0, size-from.off)), maxRecordSize)
	batch := s.index.db.NewIndexedBatch()
	end = from.off
	for at := from.off; ; {
		rec, p, err := nextRecord(r, epoch)
		if err != nil {
			return 0, false, err
		}
		if p == nil {
			blank, err := onlyZeros(r)
			if err != nil {
				return 0, false, err
			}
			return end, blank && at == end, s.index.apply(batch, false)
		}
		body := at + recordHeaderSize
		at += rec.size()
		good, err := s.found(batch, rec, p, position{from.seg, body})
		if err != nil {
			return 0, false, err
		}
		if good {
			end = at
		}
		if batch.Len() >= maxReplayBatch {
			if err := s.index.apply(batch, false); err != nil {
				return 0, false, err
			}
			batch = s.index.db.NewIndexedBatch()
		}
		_, _ = r.Discard(int(rec.size())) // was peeked
	}
}

// maxReplayBatch is the size in bytes at which entries found by a replay go to
// the index.
const maxReplayBatch = 256 << 10

// nextRecord peeks at the next record; the body is nil when there is none, or
// only its beginning.
func nextRecord(r *bufio.Reader, epoch uint64) (rec record, body []byte, err error) {
	head, err := r.Peek(recordHeaderSize)
	if err != nil && !errors.Is(err, io.EOF) {
		return record{}, nil, readError(err)
	}
	rec, ok := parseRecordHeader(head, epoch)
	if !ok {
		return record{}, nil, nil
	}
	p, err := r.Peek(int(rec.size()))
	if err != nil && !errors.Is(err, io.EOF) {
		return record{}, nil, readError(err)
	}
	if int64(len(p)) < rec.size() {
		return record{}, nil, nil
	}
	return rec, p[recordHeaderSize:], nil
}

// found enters what a record says, which the index may have lost. good is false
// when its body, which is at that position, is damaged.
func (s *segments) found(b *pebble.Batch, rec record, body []byte, at position) (good bool, err error) {
	switch rec.kind {
	case kindObject:
		if b3.Sum(body) != rec.root {
			return false, nil
		}
		return true, s.foundEntry(b, entry{root: rec.root, size: int64(rec.length), seg: at.seg, off: at.off, added: rec.added})
	case kindFile:
		e, ok := rec.file(body)
		if !ok {
			return false, nil
		}
		e.seg = at.seg
		return true, s.foundEntry(b, e)
	case kindTombstone:
		e, ok, err := s.index.getFrom(b, rec.root)
		if err != nil || !ok {
			return true, err
		}
		return true, s.dropEntry(b, e)
	case kindPin:
		p, ok := rec.pin(body)
		if !ok {
			return false, nil
		}
		return true, b.Set(pinKey(p.Root, p.Label), pinValue(p, at.seg), nil)
	}
	label, ok := rec.unpin(body)
	if !ok {
		return false, nil
	}
	return true, b.Delete(pinKey(rec.root, label), nil)
}

// foundEntry enters e unless the index has a whole copy.
func (s *segments) foundEntry(b *pebble.Batch, e entry) error {
	old, ok, err := s.index.getFrom(b, e.root)
	if err != nil || ok && !old.corrupt {
		return err
	}
	if small(e.size) {
		return setEntry(b, e)
	}
	return s.setFile(b, e)
}

// onlyZeros reads r to its end.
func onlyZeros(r *bufio.Reader) (bool, error) {
	for {
		p, err := r.Peek(1)
		if len(p) == 0 {
			if errors.Is(err, io.EOF) {
				return true, nil
			}
			return false, readError(err)
		}
		p, _ = r.Peek(r.Buffered())
		for _, c := range p {
			if c != 0 {
				return false, nil
			}
		}
		_, _ = r.Discard(len(p))
	}
}
