package segment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"

	"allium/store/segment/record"

	"allium/store/damage"
	"allium/store/index"
	"allium/store/meta"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// recovery brings the index up to the log when a store is opened: after an
// orderly close there is nothing to do but to look whether the segments are
// there; otherwise what follows the watermark is entered in the index, and with
// an index that is new everything is. Everything that was acknowledged is there,
// perhaps followed by the torn rest of a batch that was not.
//
// The torn rest is all that may be missing without a word. It is part of the last
// batch of the log, and behind the watermark. Any other place where no record can
// be read is damage; so is a segment that is missing, or shorter than the index or
// the segment after it say.
type recovery struct {
	s    *Log
	ctx  context.Context // of the opening
	anew bool            // the index is new: everything is read
	tell func()          // after each segment

	set   map[uint64]int64 // segments that the log consists of, and their ends
	mark  index.Position   // the watermark
	tail  index.Position   // where the log ended for certain, when that is known
	found []foundSegment
	names map[uint64]bool // of the segments on disk

	replay
}

// foundSegment is a segment that was read.
type foundSegment struct {
	num  uint64
	h    record.Header
	from int64 // where the reading began
	want int64 // where it ends at the least
	scan *record.Reader
}

// Recover brings the index up to the log and finds where the log goes on.
func (s *Log) Recover(ctx context.Context, clean, anew bool, tell func()) error {
	r := &recovery{s: s, ctx: ctx, anew: anew, tell: tell}
	r.replay.s = s
	if err := r.begin(); err != nil {
		return err
	}
	if err := s.findSpares(clean); err != nil {
		return err
	}
	nums := slices.Sorted(maps.Keys(r.names))
	for _, num := range nums {
		s.nextSeg = max(s.nextSeg, num+1)
	}
	if clean {
		if err := r.checkAll(nums); err != nil {
			return err
		}
		return r.resume(r.mark, true)
	}
	for _, num := range nums {
		if num < r.mark.Seg && !anew {
			continue
		}
		if err := r.read(num); err != nil {
			return fmt.Errorf("segment %s: %w", record.FileName(num), err)
		}
	}
	if err := r.replay.flush(); err != nil {
		return err
	}
	if err := r.checkAll(nums); err != nil {
		return err
	}
	end := r.judge()
	if err := r.replay.judge(r.inTornBatch); err != nil {
		return err
	}
	if err := r.resume(end, false); err != nil {
		return err
	}
	return s.noteLog(end, r.set)
}

// begin reads what the index knows of the log, and what is on disk.
func (r *recovery) begin() (err error) {
	s := r.s
	if r.mark, s.number, err = s.index.Watermark(); err != nil {
		return err
	}
	nums, err := s.List()
	if err != nil {
		return err
	}
	r.names = map[uint64]bool{}
	for _, num := range nums {
		r.names[num] = true
	}
	var known bool
	if r.set, known, err = s.index.Segments(); err != nil {
		return err
	}
	if !known { // before format 3, or the index is new: the log tells
		r.set = map[uint64]int64{}
	}
	s.nextSeg = r.mark.Seg + 1
	s.before = r.mark
	if r.tail, err = s.openTail(); err != nil {
		return err
	}
	if r.tail.Seg > r.mark.Seg {
		r.set[r.tail.Seg] = max(r.set[r.tail.Seg], r.tail.Off)
	}
	return r.endRetired()
}

// read replays one segment, from the watermark on where that is in it.
func (r *recovery) read(num uint64) error {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	s := r.s
	file, err := s.fs.Open(s.path(num))
	if err != nil {
		return meta.ReadError(err)
	}
	defer file.Close()
	f := patient{file}
	size, h, ok, err := r.header(f, num)
	if err != nil || !ok {
		return err
	}
	at, number := h.Size(), max(s.number, h.Batch)
	if r.anew {
		number = h.Batch
	}
	if num == r.mark.Seg && !r.anew {
		at, number = max(at, r.mark.Off), s.number
	}
	sc := record.NewReader(f, h, at, number, size)
	for {
		rec, body, off, err := sc.Next()
		if err != nil {
			return err
		}
		if body == nil {
			break
		}
		if err := r.replay.enter(rec, body, index.Position{Seg: num, Off: off}); err != nil {
			return err
		}
		if n := s.recovered.Add(1); n%1024 == 0 && r.ctx.Err() != nil {
			return r.ctx.Err()
		}
	}
	s.number = max(s.number, sc.Number)
	r.found = append(r.found, foundSegment{num: num, h: h, from: at, scan: sc})
	if r.tell != nil {
		r.tell()
	}
	return nil
}

// header reads the header of a segment, and mends it: from what is left of it, or
// from the first record, which says the epoch too. ok is false when the segment
// was begun and nothing in it was acknowledged, or when nothing in it can be read.
func (r *recovery) header(f io.ReaderAt, num uint64) (size int64, h record.Header, ok bool, err error) {
	size, h, ok, head, err := record.ReadHeader(f)
	if err != nil || ok {
		return size, h, ok, err
	}
	_, part := r.set[num]
	blank, err := record.ZerosBehind(f, 0, size)
	if err != nil {
		return 0, h, false, err
	}
	if blank && !part {
		return 0, h, false, r.unbegin(num)
	}
	d := meta.Damage{Kind: meta.DamageLog, State: meta.DamageMended, File: r.s.Name(num), Length: record.HeaderSize, Reason: "the header of a segment is damaged; it could be told from what is left"}
	if h, ok = record.MendHeader(head); !ok {
		h, ok = record.HeaderFromRecord(f)
	}
	switch {
	case ok:
		r.s.damage.Add(d)
	case part && r.set[num] > 0 || size > record.HeaderSize && num <= r.mark.Seg:
		d.State, d.Length, d.Left, d.Reason = meta.DamageOpen, size, max(1, size), "no record of a segment can be read, and its header neither"
		if r.indexKnows(num) {
			d.Left = 0
		}
		r.s.Lost(num, d)
	case !part && num > r.tail.Seg && num == r.highest():
		// It was begun when the power failed: the index is synced with the first
		// batch of a segment, and knows of none. Nothing in it was acknowledged.
		r.torn(num, 0, size)
		delete(r.names, num)
		return 0, h, false, r.s.setAside(r.s.path(num))
	case size > record.HeaderSize:
		d.State, d.Length, d.Left, d.Reason = meta.DamageOpen, size, size, "a segment has no header and no first record"
		r.s.damage.Add(d)
	}
	return size, h, ok, nil
}

// highest is the highest number of a segment on disk.
func (r *recovery) highest() (num uint64) {
	for n := range r.names {
		num = max(num, n)
	}
	return num
}

// unbegin removes a segment whose header did not reach the disk: nothing in it was
// acknowledged, and it holds only zeros.
func (r *recovery) unbegin(num uint64) error {
	delete(r.names, num)
	return meta.WriteError("remove an empty segment", r.s.fs.Remove(r.s.path(num)))
}

// indexKnows reports whether all records of a segment are in the index.
func (r *recovery) indexKnows(num uint64) bool { return !r.anew && num < r.mark.Seg }

// checkAll looks whether the segments of the log are there, as long as they were,
// and have their headers.
func (r *recovery) checkAll(nums []uint64) error {
	s := r.s
	for num, end := range r.replay.listed {
		r.set[num] = max(r.set[num], end)
	}
	for _, num := range nums {
		_, ok := r.set[num]
		switch {
		case ok || !r.names[num]:
		case num < r.mark.Seg && len(r.set) > 0 && !r.anew:
			s.stray(num)
			delete(r.names, num)
		default:
			r.set[num] = 0
		}
	}
	for num := range r.replay.retired {
		delete(r.set, num)
		if err := r.removeRetired(num); err != nil {
			return err
		}
	}
	for _, num := range slices.Sorted(maps.Keys(r.set)) {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		if err := r.check(num, r.set[num]); err != nil {
			return err
		}
	}
	return nil
}

// check looks at one segment that should be there.
func (r *recovery) check(num uint64, end int64) error {
	s := r.s
	for _, p := range []index.Position{r.mark, r.tail} {
		if num == p.Seg {
			end = max(end, p.Off)
		}
	}
	d := meta.Damage{Kind: meta.DamageLog, State: meta.DamageOpen, File: s.Name(num), Length: end, Reason: damage.SegmentMissing}
	if !r.indexKnows(num) {
		d.Left = max(1, end) // what was behind the watermark nobody knows
	}
	f, err := s.fs.Open(s.path(num))
	if errors.Is(err, fs.ErrNotExist) {
		s.Lost(num, d)
		return nil
	}
	if err != nil {
		return meta.ReadError(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return meta.ReadError(err)
	}
	if size := info.Size(); size < end {
		d.Offset, d.Length, d.Reason = size, end-size, "a segment is shorter than it was"
		if d.Left > 0 {
			d.Left = d.Length
		}
		s.Lost(num, d)
	}
	if r.wasRead(num) {
		return nil // with its header
	}
	_, _, _, err = r.header(patient{f}, num)
	return err
}

func (r *recovery) wasRead(num uint64) bool {
	return slices.ContainsFunc(r.found, func(f foundSegment) bool { return f.num == num })
}

// resume makes the segment at the end of the log the one that is written, if more
// can be appended: it ends with zeros. Otherwise what is there might be taken for
// records later, and the next put begins a new one.
func (r *recovery) resume(end index.Position, clean bool) error {
	s := r.s
	s.before = end
	if !r.names[end.Seg] {
		return nil
	}
	f, err := s.fs.OpenReadWrite(s.path(end.Seg), vfs.WriteCategoryUnspecified)
	if err != nil {
		return meta.ReadError(err)
	}
	size, h, ok, _, err := record.ReadHeader(f)
	blank := clean && size >= end.Off
	if n := len(r.found); !clean && n > 0 && r.found[n-1].num == end.Seg {
		blank = !r.found[n-1].scan.Torn() && size >= end.Off && end.Off >= r.set[end.Seg]
	}
	if err != nil || !ok || h.Old || !blank || end.Off < record.HeaderSize {
		_ = f.Close() // was only read
		return err
	}
	s.begin(end.Seg, h.Epoch, f, end.Off, size)
	return nil
}
