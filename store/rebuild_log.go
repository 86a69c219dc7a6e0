package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// replay enters what the segments say, from the first to the last.
func (r *rebuild) replay() error {
	s := r.d.segments
	nums, err := s.list()
	if err != nil {
		return err
	}
	for _, num := range nums {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		if err := r.replayOne(num); err != nil {
			return fmt.Errorf("segment %s: %w", segmentName(num), err)
		}
		r.report.Segments++
		r.at.Segments++
		r.progress()
	}
	return nil
}

// replayOne replays a segment to its end. Where no record can be read, it goes
// on at the next place that has one.
func (r *rebuild) replayOne(num uint64) error {
	s := r.d.segments
	f, err := s.fs.Open(s.path(num))
	if err != nil {
		return readError(err)
	}
	defer f.Close()
	size, epoch, ok, err := readSegmentHeader(f)
	if err != nil || !ok {
		return err // begun, and nothing in it was acknowledged
	}
	for at := int64(segmentHeaderSize); at < size; {
		end, blank, err := s.replay(f, epoch, position{num, at}, size)
		if err != nil || blank {
			return err
		}
		next, err := nextHeader(f, epoch, max(end, at)+1, size)
		if err != nil || next < 0 {
			return err
		}
		r.report.Torn++
		at = next
	}
	return nil
}

// nextHeader finds the first record header at or after from, -1 for none. The
// epoch, which nobody can foresee, keeps what was stored from being taken for
// one.
func nextHeader(f vfs.File, epoch uint64, from, size int64) (int64, error) {
	magic := binary.LittleEndian.AppendUint32(nil, recordMagic)
	buf := make([]byte, 1<<20)
	for from < size {
		n, err := f.ReadAt(buf[:min(int64(len(buf)), size-from)], from)
		if err != nil && !errors.Is(err, io.EOF) {
			return -1, readError(err)
		}
		p := buf[:n]
		if n < recordHeaderSize {
			return -1, nil
		}
		for i := 0; i+recordHeaderSize <= n; i++ {
			j := bytes.Index(p[i:n-recordHeaderSize+len(magic)], magic)
			if j < 0 {
				break
			}
			i += j
			if _, ok := parseRecordHeader(p[i:], epoch); ok {
				return from + int64(i), nil
			}
		}
		from += int64(n - recordHeaderSize + 1)
	}
	return -1, nil
}
