package cloud

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"

	"allium/store/disk/segment/codec"

	"allium/protocols/status"
	"allium/store/disk/tables"
	"allium/store/meta"
)

// segments copies the log's segments to the bucket ("ships" them) and fetches them back.
//
// The segment that is being written is shipped in parts: each pass puts the bytes since the
// last one as s/<node>/<num>.seg+<offset>. A sealed segment is put whole, as
// s/<node>/<num>.seg, and its parts are deleted. If it has parts, [codec.CheckSealed] must
// find it intact first. The index records how much of each segment is shipped.
//
// A segment that was retired from the log is deleted from the bucket only after the rest of
// the log is shipped: compaction has copied its live records there. Nothing is deleted while
// damage is open. A segment that belongs to the log but is missing locally stays in the
// bucket, and is fetched when the store opens.
type segments struct {
	*conn
	// rejected are the sealed segments that CheckSealed rejected, so that they must not
	// replace their parts. Only the goroutine that ships uses it. It has at most one entry
	// for each segment.
	rejected map[uint64]bool
}

func newSegments(c *conn) *segments { return &segments{conn: c, rejected: map[uint64]bool{}} }

// Ship copies to the bucket what was committed to the log when it began. It notes success in
// the metrics and logs failure. Calls must not run concurrently.
func (s *segments) Ship(ctx context.Context, log Log) {
	err := s.ship(ctx, log)
	if err == nil {
		s.meters.Shipped()
		return
	}
	if ctx.Err() == nil {
		s.log.Warn("cannot copy segments to the bucket; the newest small objects are only on this machine", "err", err)
	}
}

// HasSegment reports whether a part of a segment, or all of it, was shipped.
func (s *segments) HasSegment(num uint64) (bool, error) { return s.index.Shipped(num).Has() }

// ship ships each segment up to the watermark and then deletes retired segments.
func (s *segments) ship(ctx context.Context, log Log) error {
	if err := s.checkJoined(); err != nil {
		return err
	}
	shipped, err := s.index.AllShipped()
	if err != nil {
		return err
	}
	nums, err := log.List()
	if err != nil {
		return err
	}
	// Read the watermark after the list: live records of a segment that is retired by
	// now were copied to positions below it.
	w, _, err := s.index.Watermark()
	if err != nil {
		return err
	}
	inLog := log.Segments()
	for _, num := range nums {
		if _, ok := inLog[num]; num > w.Seg || shipped[num].Whole || !ok {
			continue
		}
		if err := s.shipOne(ctx, log, num, w, shipped[num], inLog[num]); err != nil {
			return err
		}
	}
	if open, _ := s.damage.Open(); open > 0 {
		return nil // the bucket may have the only intact copy
	}
	for num, was := range shipped {
		if _, ok := inLog[num]; ok || slices.Contains(nums, num) {
			continue
		}
		if err := s.retire(ctx, num, was.Whole); err != nil {
			return err
		}
		delete(s.rejected, num)
	}
	return nil
}

// shipOne ships one segment up to the watermark w. was is how much of it was shipped before.
// end is the offset at which its last record ends, or 0 when that is unknown.
func (s *segments) shipOne(
	ctx context.Context, log Log, num uint64, w tables.Position, was tables.Shipped, end int64,
) error {
	f, err := log.OpenFile(num)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the segment was retired meanwhile
	}
	if err != nil {
		return meta.ReadError(err)
	}
	defer f.Close()
	if num == w.Seg {
		return s.shipPart(ctx, f, num, was, w.Off)
	}
	if s.rejected[num] {
		return nil
	}
	info, err := f.Stat()
	if err != nil {
		return meta.ReadError(err)
	}
	if was.End > 0 {
		found, err := codec.CheckSealed(ctx, f, info.Size(), end, was)
		if err != nil {
			return err
		}
		if found != nil { // the parts stay, and the bytes that they lack become one more part
			if err := s.shipPart(ctx, f, num, was, min(info.Size(), max(end, was.End))); err != nil {
				return err
			}
			s.rejected[num] = true
			found.Kind, found.State, found.File = cmp.Or(found.Kind, meta.DamageLog), meta.DamageOpen, log.Name(num)
			found.Reason += ", so the segment does not replace its parts in the bucket"
			log.ReportLoss(num, *found)
			return nil
		}
	}
	if err := s.bucket.Put(ctx, s.wholeKey(num), f, info.Size(), false); err != nil {
		return err
	}
	whole := tables.Shipped{Whole: true, End: info.Size()}
	if err := s.index.Shipped(num).Set(whole.Encode(), true); err != nil {
		return err
	}
	return s.deleteParts(ctx, num)
}

// shipPart puts the bytes from was.End up to end as one part. It does nothing when there
// are none.
func (s *segments) shipPart(ctx context.Context, f io.ReaderAt, num uint64, was tables.Shipped, end int64) error {
	if end <= was.End {
		return nil
	}
	now := tables.Shipped{End: end, HasCRC: was.HasCRC || was.End == 0}
	var err error
	if now.HasCRC {
		if now.CRC, err = codec.Checksum(ctx, f, was.End, end, was.CRC); err != nil {
			return err
		}
	}
	part := io.NewSectionReader(f, was.End, end-was.End)
	if err := s.bucket.Put(ctx, s.partKey(num, was.End), part, part.Size(), false); err != nil {
		return err
	}
	return s.index.Shipped(num).Set(now.Encode(), true)
}

// retire deletes a segment from the bucket, and then its entry from the index.
func (s *segments) retire(ctx context.Context, num uint64, whole bool) error {
	if whole {
		if err := s.bucket.Delete(ctx, s.wholeKey(num)); err != nil {
			return err
		}
	}
	if err := s.deleteParts(ctx, num); err != nil {
		return err
	}
	return s.index.Shipped(num).Drop()
}

// deleteParts deletes all parts of a segment from the bucket.
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
