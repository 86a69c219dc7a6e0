package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"allium/protocols/status"
)

// Shipping. A sealed segment is in the bucket whole, as s/<node>/<num>.seg; of
// the segment that is being written, what each pass found new is an object of
// its own, s/<node>/<num>.seg+<offset>, until the segment is sealed. The index
// has how far each came. Segments that were retired here go when everything
// before is shipped: what was live in them has moved by then.

// shipped is how much of a segment is in the bucket.
type shipped struct {
	whole bool  // sealed, as one object
	end   int64 // bytes
}

func shippedKey(num uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{keyShipped}, num)
}

func (s shipped) encode() []byte {
	b := []byte{0}
	if s.whole {
		b[0] = 1
	}
	return binary.AppendUvarint(b, uint64(s.end))
}

func decodeShipped(p []byte) (s shipped, err error) {
	var end uint64
	if len(p) > 0 && p[0] <= 1 {
		rest := p[1:]
		if uvarint(&rest, &end) && len(rest) == 0 && end <= maxSegmentBytes {
			return shipped{whole: p[0] == 1, end: int64(end)}, nil
		}
	}
	return s, fmt.Errorf("the index entry of a shipped segment is malformed: % x", clip(p))
}

// allShipped reads what is in the bucket, by number.
func (c *cloud) allShipped() (map[uint64]shipped, error) {
	all := map[uint64]shipped{}
	err := c.index.scan([]byte{keyShipped}, []byte{keyShipped + 1}, func(k, v []byte) (bool, error) {
		if len(k) != 9 {
			return false, fmt.Errorf("the index key % x is malformed", clip(k))
		}
		s, err := decodeShipped(v)
		all[binary.BigEndian.Uint64(k[1:])] = s
		return true, err
	})
	return all, err
}

// wholeKey and partKey name a segment, and what was added to it at off, in the
// bucket.
func (c *cloud) wholeKey(num uint64) string { return c.segmentPrefix() + segmentName(num) }

func (c *cloud) partKey(num uint64, off int64) string {
	return fmt.Sprintf("%s+%016x", c.wholeKey(num), off)
}

// parseSegmentKey reads a name below the node's prefix; off is -1 for a whole
// segment.
func (c *cloud) parseSegmentKey(key string) (num uint64, off int64, ok bool) {
	name, part, isPart := strings.Cut(strings.TrimPrefix(key, c.segmentPrefix()), "+")
	num, ok = parseSegmentName(name)
	if !ok || !isPart {
		return num, -1, ok && key == c.wholeKey(num)
	}
	o, err := strconv.ParseUint(part, 16, 63)
	return num, int64(o), err == nil && key == c.partKey(num, int64(o))
}

// ship brings the bucket up to what was committed when it began.
func (c *cloud) ship(ctx context.Context, s *segments) error {
	if err := c.here(); err != nil {
		return err
	}
	there, err := c.allShipped()
	if err != nil {
		return err
	}
	nums, err := s.list()
	if err != nil {
		return err
	}
	// Read after the list: what is retired has been moved to before it.
	w, err := s.watermark()
	if err != nil {
		return err
	}
	for _, num := range nums {
		if num > w.seg || there[num].whole {
			continue
		}
		if err := c.shipOne(ctx, s, num, w, there[num]); err != nil {
			return err
		}
	}
	for num, was := range there {
		if !slices.Contains(nums, num) {
			if err := c.retire(ctx, num, was.whole); err != nil {
				return err
			}
		}
	}
	return nil
}

// shipOne brings one segment up to the watermark.
func (c *cloud) shipOne(ctx context.Context, s *segments, num uint64, w position, was shipped) error {
	f, err := s.fs.Open(s.path(num))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // retired meanwhile
	}
	if err != nil {
		return readError(err)
	}
	defer f.Close()
	if num == w.seg {
		if w.off <= was.end {
			return nil
		}
		if err := c.bucket.Put(ctx, c.partKey(num, was.end), section{f, was.end}, w.off-was.end, false); err != nil {
			return err
		}
		return c.index.set(shippedKey(num), shipped{end: w.off}.encode(), true)
	}
	info, err := f.Stat()
	if err != nil {
		return readError(err)
	}
	if err := c.bucket.Put(ctx, c.wholeKey(num), f, info.Size(), false); err != nil {
		return err
	}
	if err := c.index.set(shippedKey(num), shipped{whole: true, end: info.Size()}.encode(), true); err != nil {
		return err
	}
	return c.deleteParts(ctx, num)
}

// retire deletes a segment in the bucket.
func (c *cloud) retire(ctx context.Context, num uint64, whole bool) error {
	if whole {
		if err := c.bucket.Delete(ctx, c.wholeKey(num)); err != nil {
			return err
		}
	}
	if err := c.deleteParts(ctx, num); err != nil {
		return err
	}
	return c.index.drop(shippedKey(num))
}

func (c *cloud) deleteParts(ctx context.Context, num uint64) error {
	for item, err := range c.bucket.List(ctx, c.wholeKey(num)+"+") {
		if err != nil {
			return err
		}
		if err := c.bucket.Delete(ctx, item.Key); err != nil && status.Of(err) != status.NotFound {
			return err
		}
	}
	return nil
}

// section is a file from an offset on.
type section struct {
	f   io.ReaderAt
	off int64
}

// ReadAt implements io.ReaderAt.
func (s section) ReadAt(p []byte, off int64) (int, error) { return s.f.ReadAt(p, s.off+off) }
