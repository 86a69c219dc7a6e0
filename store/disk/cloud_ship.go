package disk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"allium/protocols/status"
	"allium/store/index"
	"allium/store/meta"
	"allium/store/segment"
)

// Shipping. A sealed segment is in the bucket whole, as s/<node>/<num>.seg; of
// the segment that is being written, what each pass found new is an object of
// its own, s/<node>/<num>.seg+<offset>, until the segment is sealed. The index
// has how far each came. Segments that were retired here go when everything
// before is shipped: what was live in them has moved by then. One that is only
// missing here stays, and is fetched back when the store opens. Parts give way to
// the whole when it was proved, see proveSegment.

// HasSegment reports whether something of a segment was shipped.
func (c *cloud) HasSegment(num uint64) (bool, error) { return c.index.IsShipped(num) }

// wholeKey and partKey name a segment, and what was added to it at off, in the
// bucket.
func (c *cloud) wholeKey(num uint64) string { return c.segmentPrefix() + segment.FileName(num) }

func (c *cloud) partKey(num uint64, off int64) string {
	return fmt.Sprintf("%s+%016x", c.wholeKey(num), off)
}

// parseSegmentKey reads a name below the node's prefix; off is -1 for a whole
// segment.
func (c *cloud) parseSegmentKey(key string) (num uint64, off int64, ok bool) {
	name, part, isPart := strings.Cut(strings.TrimPrefix(key, c.segmentPrefix()), "+")
	num, ok = segment.ParseFileName(name)
	if !ok || !isPart {
		return num, -1, ok && key == c.wholeKey(num)
	}
	o, err := strconv.ParseUint(part, 16, 63)
	return num, int64(o), err == nil && key == c.partKey(num, int64(o))
}

// ship brings the bucket up to what was committed when it began.
func (c *cloud) ship(ctx context.Context, s *segment.Log) error {
	if err := c.here(); err != nil {
		return err
	}
	there, err := c.index.AllShipped()
	if err != nil {
		return err
	}
	nums, err := s.List()
	if err != nil {
		return err
	}
	// Read after the list: what is retired has been moved to before it.
	w, _, err := c.index.Watermark()
	if err != nil {
		return err
	}
	set := s.Segments()
	for _, num := range nums {
		if _, of := set[num]; num > w.Seg || there[num].Whole || !of {
			continue
		}
		if err := c.shipOne(ctx, s, num, w, there[num], set[num]); err != nil {
			return err
		}
	}
	if open, _ := c.damage.Open(); open > 0 {
		return nil // what is in the bucket may be all that is left
	}
	for num, was := range there {
		if _, of := set[num]; of || slices.Contains(nums, num) {
			continue
		}
		if err := c.retire(ctx, num, was.Whole); err != nil {
			return err
		}
		delete(c.unproved, num)
	}
	return nil
}

// shipOne brings one segment up to the watermark. end is where its last record
// ends, as the log says; 0 where it does not.
func (c *cloud) shipOne(ctx context.Context, s *segment.Log, num uint64, w index.Position, was index.Shipped, end int64) error {
	f, err := s.OpenFile(num)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // retired meanwhile
	}
	if err != nil {
		return meta.ReadError(err)
	}
	defer f.Close()
	if num == w.Seg {
		return c.shipPart(ctx, f, num, was, w.Off)
	}
	if c.unproved[num] {
		return nil
	}
	info, err := f.Stat()
	if err != nil {
		return meta.ReadError(err)
	}
	if was.End > 0 {
		wrong, err := segment.Prove(ctx, f, info.Size(), end, was)
		if err != nil {
			return err
		}
		if wrong != nil { // the parts stay, and what they lack goes beside them
			if err := c.shipPart(ctx, f, num, was, min(info.Size(), max(end, was.End))); err != nil {
				return err
			}
			c.unproved[num] = true
			wrong.Kind, wrong.State, wrong.File = cmp.Or(wrong.Kind, meta.DamageLog), meta.DamageOpen, s.Name(num)
			wrong.Reason += ", so the segment does not replace its parts in the bucket"
			s.Lost(num, *wrong)
			return nil
		}
	}
	if err := c.bucket.Put(ctx, c.wholeKey(num), f, info.Size(), false); err != nil {
		return err
	}
	if err := c.index.SetShipped(num, index.Shipped{Whole: true, End: info.Size()}, true); err != nil {
		return err
	}
	return c.deleteParts(ctx, num)
}

// shipPart ships what is new up to end.
func (c *cloud) shipPart(ctx context.Context, f io.ReaderAt, num uint64, was index.Shipped, end int64) error {
	if end <= was.End {
		return nil
	}
	now := index.Shipped{End: end, Summed: was.Summed || was.End == 0}
	var err error
	if now.Summed {
		if now.Sum, err = segment.Sum(ctx, f, was.End, end, was.Sum); err != nil {
			return err
		}
	}
	if err := c.bucket.Put(ctx, c.partKey(num, was.End), section{f, was.End}, end-was.End, false); err != nil {
		return err
	}
	return c.index.SetShipped(num, now, true)
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
	return c.index.DropShipped(num)
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
