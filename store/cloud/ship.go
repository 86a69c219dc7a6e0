package cloud

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"

	"allium/store/segment/record"

	"allium/protocols/status"
	"allium/store/index"
	"allium/store/meta"
)

// segments are the copies of the log in the bucket. A sealed segment is there
// whole, as s/<node>/<num>.seg. Of the segment that is being written, what each
// pass found new is an object of its own, s/<node>/<num>.seg+<offset>, until the
// segment is sealed. The index has how far each came. Segments that were retired
// here go when everything before is shipped: what was live in them has moved by
// then. One that is only missing here stays, and is fetched back when the store
// opens. Parts give way to the whole when it was proved, see [record.Prove].
type segments struct {
	*conn
	unproved map[uint64]bool // segments that must not replace their parts; of the goroutine that ships, and at most as many as there are segments
}

func newSegments(c *conn) *segments { return &segments{conn: c, unproved: map[uint64]bool{}} }

// Ship brings the bucket up to the log, and tells how it went.
func (s *segments) Ship(ctx context.Context, log Log) {
	err := s.ship(ctx, log)
	if err == nil {
		s.meters.Shipped()
		return
	}
	if ctx.Err() == nil {
		s.log.Warn("small objects are on this machine alone for now", "err", err)
	}
}

// HasSegment reports whether something of a segment was shipped.
func (s *segments) HasSegment(num uint64) (bool, error) { return s.index.IsShipped(num) }

// ship brings the bucket up to what was committed when it began.
func (s *segments) ship(ctx context.Context, log Log) error {
	if err := s.here(); err != nil {
		return err
	}
	there, err := s.index.AllShipped()
	if err != nil {
		return err
	}
	nums, err := log.List()
	if err != nil {
		return err
	}
	// Read after the list: what is retired has been moved to before it.
	w, _, err := s.index.Watermark()
	if err != nil {
		return err
	}
	set := log.Segments()
	for _, num := range nums {
		if _, of := set[num]; num > w.Seg || there[num].Whole || !of {
			continue
		}
		if err := s.shipOne(ctx, log, num, w, there[num], set[num]); err != nil {
			return err
		}
	}
	if open, _ := s.damage.Open(); open > 0 {
		return nil // what is in the bucket may be all that is left
	}
	for num, was := range there {
		if _, of := set[num]; of || slices.Contains(nums, num) {
			continue
		}
		if err := s.retire(ctx, num, was.Whole); err != nil {
			return err
		}
		delete(s.unproved, num)
	}
	return nil
}

// shipOne brings one segment up to the watermark. end is where its last record
// ends, as the log says; 0 where it does not.
func (s *segments) shipOne(ctx context.Context, log Log, num uint64, w index.Position, was index.Shipped, end int64) error {
	f, err := log.OpenFile(num)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // retired meanwhile
	}
	if err != nil {
		return meta.ReadError(err)
	}
	defer f.Close()
	if num == w.Seg {
		return s.shipPart(ctx, f, num, was, w.Off)
	}
	if s.unproved[num] {
		return nil
	}
	info, err := f.Stat()
	if err != nil {
		return meta.ReadError(err)
	}
	if was.End > 0 {
		wrong, err := record.Prove(ctx, f, info.Size(), end, was)
		if err != nil {
			return err
		}
		if wrong != nil { // the parts stay, and what they lack goes beside them
			if err := s.shipPart(ctx, f, num, was, min(info.Size(), max(end, was.End))); err != nil {
				return err
			}
			s.unproved[num] = true
			wrong.Kind, wrong.State, wrong.File = cmp.Or(wrong.Kind, meta.DamageLog), meta.DamageOpen, log.Name(num)
			wrong.Reason += ", so the segment does not replace its parts in the bucket"
			log.Lost(num, *wrong)
			return nil
		}
	}
	if err := s.bucket.Put(ctx, s.wholeKey(num), f, info.Size(), false); err != nil {
		return err
	}
	if err := s.index.SetShipped(num, index.Shipped{Whole: true, End: info.Size()}, true); err != nil {
		return err
	}
	return s.deleteParts(ctx, num)
}

// shipPart ships what is new up to end.
func (s *segments) shipPart(ctx context.Context, f io.ReaderAt, num uint64, was index.Shipped, end int64) error {
	if end <= was.End {
		return nil
	}
	now := index.Shipped{End: end, Summed: was.Summed || was.End == 0}
	var err error
	if now.Summed {
		if now.Sum, err = record.Sum(ctx, f, was.End, end, was.Sum); err != nil {
			return err
		}
	}
	if err := s.bucket.Put(ctx, s.partKey(num, was.End), io.NewSectionReader(f, was.End, end-was.End), end-was.End, false); err != nil {
		return err
	}
	return s.index.SetShipped(num, now, true)
}

// retire deletes a segment in the bucket.
func (s *segments) retire(ctx context.Context, num uint64, whole bool) error {
	if whole {
		if err := s.bucket.Delete(ctx, s.wholeKey(num)); err != nil {
			return err
		}
	}
	if err := s.deleteParts(ctx, num); err != nil {
		return err
	}
	return s.index.DropShipped(num)
}

func (s *segments) deleteParts(ctx context.Context, num uint64) error {
	for item, err := range s.bucket.List(ctx, s.wholeKey(num)+"+") {
		if err != nil {
			return err
		}
		if err := s.bucket.Delete(ctx, item.Key); err != nil && status.Of(err) != status.NotFound {
			return err
		}
	}
	return nil
}
