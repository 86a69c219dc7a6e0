package store

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

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
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return from, readError(err)
	}
	end, blank := from.off, true
	if !clean {
		end, blank, err = s.replay(f, from, info.Size())
	}
	if err != nil || !blank {
		s.seal()
		_ = f.Close() // only read
	} else {
		s.begin(from.seg, f, end, info.Size())
	}
	return position{from.seg, end}, err
}

// replay enters the records of f from offset from on in the index. It returns
// where the last good one ends, and whether nothing but zeros follows.
//
// A record whose header is whole and whose body is damaged is passed over: what
// comes after it may have been acknowledged.
func (s *segments) replay(f io.ReaderAt, from position, size int64) (end int64, blank bool, err error) {
	if from.off == segmentHeaderSize {
		var header [segmentHeaderSize]byte
		if _, err := f.ReadAt(header[:], 0); err != nil && !errors.Is(err, io.EOF) {
			return 0, false, readError(err)
		}
		if epoch, ok := parseSegmentHeader(header[:]); !ok || epoch != from.seg {
			return from.off, false, nil // begun, and nothing in it was acknowledged
		}
	}
	r := bufio.NewReaderSize(io.NewSectionReader(f, from.off, max(0, size-from.off)), maxRecordSize)
	batch := s.index.db.NewBatch()
	end = from.off
	for at := from.off; ; {
		root, p, err := nextRecord(r, from.seg)
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
		at = body + int64(len(p))
		if b3.Sum(p) == root {
			end = at
			if err := s.found(batch, entry{root: root, size: int64(len(p)), seg: from.seg, off: body, added: minuteOf(time.Now())}); err != nil {
				return 0, false, err
			}
		}
		if batch.Len() >= maxReplayBatch {
			if err := s.index.apply(batch, false); err != nil {
				return 0, false, err
			}
			batch = s.index.db.NewBatch()
		}
		_, _ = r.Discard(recordHeaderSize + len(p)) // was peeked
	}
}

// maxReplayBatch is the size in bytes at which entries found by a replay go to
// the index.
const maxReplayBatch = 256 << 10

// nextRecord peeks at the next record; the body is nil when there is none, or
// only its beginning.
func nextRecord(r *bufio.Reader, epoch uint64) (root b3.Root, body []byte, err error) {
	head, err := r.Peek(recordHeaderSize)
	if err != nil && !errors.Is(err, io.EOF) {
		return root, nil, readError(err)
	}
	rec, ok := parseRecordHeader(head, epoch)
	if !ok {
		return root, nil, nil
	}
	p, err := r.Peek(recordHeaderSize + rec.length)
	if err != nil && !errors.Is(err, io.EOF) {
		return root, nil, readError(err)
	}
	if len(p) < recordHeaderSize+rec.length {
		return root, nil, nil
	}
	return rec.root, p[recordHeaderSize:], nil
}

// found enters a record that the index may have lost.
func (s *segments) found(b *pebble.Batch, e entry) error {
	old, ok, err := s.index.get(e.root)
	if err != nil || ok && !old.corrupt {
		return err
	}
	return setEntry(b, e)
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
