package segment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"

	"allium/store/disk/segment/codec"

	"allium/store/disk/damage"
	"allium/store/disk/tables"
	"allium/store/meta"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// recovery brings the index up to the log when a store opens. After an orderly close it
// only checks that the segments are there. Otherwise it enters in the index what follows
// the watermark, or the whole log when the index is new. Afterwards the index has
// everything that was acknowledged, and possibly readable records of a torn batch that was
// not.
//
// Only a torn batch may be incomplete without a damage report. It is the last batch of the log and behind the
// watermark. Any other place where no record parses is damage. A segment that is missing, or shorter than the index or
// the next segment says, is damage too.
type recovery struct {
	s          *Log
	ctx        context.Context // of the opening
	indexIsNew bool            // the index is empty, so the whole log is replayed
	progress   func()          // called after each segment; may be nil

	ends      map[uint64]int64 // the segments of the log and their ends
	watermark tables.Position  // the log up to here is in the index
	tailEnd   tables.Position  // what FileTail says; zero when unknown
	scanned   []scannedSegment // ascending
	onDisk    map[uint64]bool  // numbers of the segment files

	replay
}

// scannedSegment is a segment whose records were read.
type scannedSegment struct {
	num    uint64
	header codec.SegmentHeader
	minEnd int64 // lowest offset at which it can end
	reader *codec.Reader
}

// Recover brings the index up to the log and finds where to append. clean reports that the
// store was closed in order, indexIsNew that the index is empty. progress may be nil; it is
// called after each segment that was read.
func (s *Log) Recover(ctx context.Context, clean, indexIsNew bool, progress func()) error {
	r := &recovery{s: s, ctx: ctx, indexIsNew: indexIsNew, progress: progress}
	r.replay.s = s
	if err := r.load(); err != nil {
		return err
	}
	if err := s.spares.find(clean); err != nil {
		return err
	}
	nums := slices.Sorted(maps.Keys(r.onDisk))
	for _, num := range nums {
		s.nextSeg = max(s.nextSeg, num+1)
	}
	if clean {
		if err := r.checkAll(nums); err != nil {
			return err
		}
		return r.resume(r.watermark, true)
	}
	for _, num := range nums {
		if num < r.watermark.Seg && !indexIsNew {
			continue
		}
		if err := r.replaySegment(num); err != nil {
			return fmt.Errorf("segment %s: %w", codec.FileName(num), err)
		}
	}
	if err := r.replay.flush(); err != nil {
		return err
	}
	if err := r.checkAll(nums); err != nil {
		return err
	}
	end := r.reportDamage()
	if err := r.replay.reportDamaged(r.inTornBatch); err != nil {
		return err
	}
	if err := r.resume(end, false); err != nil {
		return err
	}
	return s.saveEnd(end, r.ends)
}

// load reads what the index and FileTail know of the log, and which segments are on disk.
func (r *recovery) load() (err error) {
	s := r.s
	if r.watermark, s.batchNumber, err = s.index.Watermark(); err != nil {
		return err
	}
	nums, err := s.List()
	if err != nil {
		return err
	}
	r.onDisk = map[uint64]bool{}
	for _, num := range nums {
		r.onDisk[num] = true
	}
	var known bool
	if r.ends, known, err = s.index.Segments(); err != nil {
		return err
	}
	if !known { // format 1 or 2, or a new index: the log itself lists its segments
		r.ends = map[uint64]int64{}
	}
	s.nextSeg = r.watermark.Seg + 1
	s.lastEnd = r.watermark
	if r.tailEnd, err = s.tailFile.open(&s.segmentDir, s.logger); err != nil {
		return err
	}
	if r.tailEnd.Seg > r.watermark.Seg {
		r.ends[r.tailEnd.Seg] = max(r.ends[r.tailEnd.Seg], r.tailEnd.Off)
	}
	return r.removeRetiredFiles()
}

// replaySegment enters the records of one segment in the index, from the watermark on if
// that is in it.
func (r *recovery) replaySegment(num uint64) error {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	s := r.s
	file, err := s.fs.Open(s.path(num))
	if err != nil {
		return meta.ReadError(err)
	}
	defer file.Close()
	f := tolerantFile{file}
	size, h, ok, err := r.readHeader(f, num)
	if err != nil || !ok {
		return err
	}
	at, number := h.Size(), max(s.batchNumber, h.LastBatch)
	if r.indexIsNew {
		number = h.LastBatch
	}
	if num == r.watermark.Seg && !r.indexIsNew {
		at, number = max(at, r.watermark.Off), s.batchNumber
	}
	sc := codec.NewReader(f, h, at, number, size)
	for {
		rec, body, off, err := sc.Next()
		if err != nil {
			return err
		}
		if body == nil {
			break
		}
		if err := r.replay.enter(rec, body, tables.Position{Seg: num, Off: off}); err != nil {
			return err
		}
		if n := s.recovered.Add(1); n%1024 == 0 && r.ctx.Err() != nil {
			return r.ctx.Err()
		}
	}
	s.batchNumber = max(s.batchNumber, sc.BatchNumber)
	r.scanned = append(r.scanned, scannedSegment{num: num, header: h, reader: sc})
	if r.progress != nil {
		r.progress()
	}
	return nil
}

// readHeader reads the header of a segment. It repairs a damaged header, or rebuilds it
// from the first record, which contains the epoch too. ok is false when no record can be
// read, and when the segment was only begun and nothing in it was acknowledged.
func (r *recovery) readHeader(f io.ReaderAt, num uint64) (size int64, h codec.SegmentHeader, ok bool, err error) {
	size, h, ok, head, err := codec.ReadSegmentHeader(f)
	if err != nil || ok {
		return size, h, ok, err
	}
	_, listed := r.ends[num]
	blank, err := codec.OnlyZerosFrom(f, 0, size)
	if err != nil {
		return 0, h, false, err
	}
	if blank && !listed {
		return 0, h, false, r.removeEmpty(num)
	}
	d := meta.Damage{
		Kind: meta.DamageLog, State: meta.DamageMended, File: r.s.Name(num), Length: codec.SegmentHeaderSize,
		Reason: "the header of a segment is damaged; it was rebuilt from what is left",
	}
	if h, ok = codec.MendSegmentHeader(head); !ok {
		h, ok = codec.SegmentHeaderFromRecord(f)
	}
	switch {
	case ok:
		r.s.damage.Add(d)
	case listed && r.ends[num] > 0 || size > codec.SegmentHeaderSize && num <= r.watermark.Seg:
		d.State, d.Length, d.Left = meta.DamageOpen, size, max(1, size)
		d.Reason = "the header of a segment is damaged, and no record in it can be read"
		if r.indexKnows(num) {
			d.Left = 0
		}
		r.s.ReportLoss(num, d)
	case !listed && num > r.tailEnd.Seg && num == r.highestNumber():
		// The power failed soon after the segment was begun. The index is synced with the first
		// batch of a segment and knows of none here, so nothing in it was acknowledged.
		r.noteTorn(num, 0, size)
		delete(r.onDisk, num)
		return 0, h, false, r.s.quarantine(r.s.path(num))
	case size > codec.SegmentHeaderSize:
		d.State, d.Length, d.Left = meta.DamageOpen, size, size
		d.Reason = "a segment has no header and no readable first record"
		r.s.damage.Add(d)
	}
	return size, h, ok, nil
}

// highestNumber returns the highest number of a segment on disk, 0 for none.
func (r *recovery) highestNumber() (num uint64) {
	for n := range r.onDisk {
		num = max(num, n)
	}
	return num
}

// removeEmpty deletes a segment that holds only zeros: its header did not reach the disk,
// so nothing in it was acknowledged.
func (r *recovery) removeEmpty(num uint64) error {
	delete(r.onDisk, num)
	return meta.WriteError("remove an empty segment", r.s.fs.Remove(r.s.path(num)))
}

// indexKnows reports whether the index has all records of a segment.
func (r *recovery) indexKnows(num uint64) bool { return !r.indexIsNew && num < r.watermark.Seg }

// checkAll decides which of the segments nums belong to the log. It checks that each
// segment of the log exists, has its length, and has a header.
func (r *recovery) checkAll(nums []uint64) error {
	for num, end := range r.replay.listed {
		r.ends[num] = max(r.ends[num], end)
	}
	for _, num := range nums {
		_, ok := r.ends[num]
		switch {
		case ok || !r.onDisk[num]:
		case num < r.watermark.Seg && len(r.ends) > 0 && !r.indexIsNew:
			r.addStray(num)
			delete(r.onDisk, num)
		default:
			r.ends[num] = 0
		}
	}
	for num := range r.replay.retired {
		delete(r.ends, num)
		if err := r.removeRetiredFile(num); err != nil {
			return err
		}
	}
	for _, num := range slices.Sorted(maps.Keys(r.ends)) {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		if err := r.checkSegment(num, r.ends[num]); err != nil {
			return err
		}
	}
	return nil
}

// addStray reports a segment that is not part of the log: it was restored from a copy, or
// belongs to another store. It stays where it is and is not read.
func (r *recovery) addStray(num uint64) {
	r.s.damage.Add(meta.Damage{
		Kind: meta.DamageFile, State: meta.DamageMended, File: r.s.Name(num),
		Reason: "the segment is not part of the log and is left alone; delete it, or rebuild the index to read it",
	})
}

// checkSegment checks a segment of the log that should end at end.
func (r *recovery) checkSegment(num uint64, end int64) error {
	s := r.s
	for _, p := range []tables.Position{r.watermark, r.tailEnd} {
		if num == p.Seg {
			end = max(end, p.Off)
		}
	}
	d := meta.Damage{
		Kind: meta.DamageLog, State: meta.DamageOpen, File: s.Name(num), Length: end,
		Reason: damage.SegmentMissing,
	}
	if !r.indexKnows(num) {
		d.Left = max(1, end) // the index cannot replace what was behind the watermark
	}
	f, err := s.fs.Open(s.path(num))
	if errors.Is(err, fs.ErrNotExist) {
		s.ReportLoss(num, d)
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
		s.ReportLoss(num, d)
	}
	if r.wasScanned(num) {
		return nil // its header was read then
	}
	_, _, _, err = r.readHeader(tolerantFile{f}, num)
	return err
}

func (r *recovery) wasScanned(num uint64) bool {
	return slices.ContainsFunc(r.scanned, func(f scannedSegment) bool { return f.num == num })
}

// resume makes the segment at the end of the log the active one if only zeros follow the
// last record. Otherwise later reads might take the bytes behind it for records, so the
// next put begins a new segment.
func (r *recovery) resume(end tables.Position, clean bool) error {
	s := r.s
	s.lastEnd = end
	if !r.onDisk[end.Seg] {
		return nil
	}
	f, err := s.fs.OpenReadWrite(s.path(end.Seg), vfs.WriteCategoryUnspecified)
	if err != nil {
		return meta.ReadError(err)
	}
	size, h, ok, _, err := codec.ReadSegmentHeader(f)
	blank := clean && size >= end.Off
	if n := len(r.scanned); !clean && n > 0 && r.scanned[n-1].num == end.Seg {
		blank = !r.scanned[n-1].reader.Torn() && size >= end.Off && end.Off >= r.ends[end.Seg]
	}
	if err != nil || !ok || h.OldFormat || h.Format3 || !blank || end.Off < codec.SegmentHeaderSize {
		_ = f.Close() // nothing was written
		return err
	}
	s.activate(end.Seg, h.Epoch, f, end.Off, size)
	return nil
}
