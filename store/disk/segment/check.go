package segment

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"allium/store/disk/segment/codec"

	"allium/store/meta"
)

// CheckLog reads the log from its first segment to its last and returns how many it read. It
// adds what cannot be read to the list of damage; the compactor then copies what the index
// needs of the segment. It checks headers but not whether bodies match their addresses. An
// error of alive ends it.
//
// It finds, for example, a damaged header of a record that the index knows. Such a record can
// still be read, but a rebuild of the index would lose it.
func (s *Log) CheckLog(ctx context.Context, alive func(context.Context) error) (segments int, err error) {
	nums, err := s.List()
	if err != nil {
		return 0, err
	}
	for _, num := range nums {
		if err := alive(ctx); err != nil {
			return segments, err
		}
		err := s.check(ctx, num)
		if errors.Is(err, fs.ErrNotExist) {
			continue // compaction removed the segment meanwhile
		}
		if err != nil {
			return segments, fmt.Errorf("check segment %s: %w", codec.FileName(num), err)
		}
		segments++
	}
	return segments, nil
}

// check reads segment num up to where it ended when the check began, and reports its damage
// through ReportLoss. It does nothing when num is not part of the log.
func (s *Log) check(ctx context.Context, num uint64) error {
	if !s.usage.has(num) {
		return nil
	}
	end := s.usage.get(num).end
	if at := s.usage.position(); at.Seg == num {
		end = at.Off
	}
	f, err := s.fs.Open(s.path(num))
	if err != nil {
		return err
	}
	defer f.Close()
	size, h, ok, head, err := codec.ReadSegmentHeader(tolerantFile{f})
	if err != nil {
		return err
	}
	d := meta.Damage{
		Kind: meta.DamageLog, State: meta.DamageOpen, File: s.Name(num),
		Length: codec.SegmentHeaderSize, Reason: "the header of a segment is damaged",
	}
	if !ok {
		if h, ok = codec.MendSegmentHeader(head); !ok {
			h, ok = codec.SegmentHeaderFromRecord(tolerantFile{f})
		}
		if ok {
			d.State = meta.DamageMended
		}
		s.ReportLoss(num, d)
		if !ok {
			return nil
		}
	}
	if end == 0 || end > size {
		end = size
	}
	sc := codec.NewReader(tolerantFile{f}, h, h.Size(), h.LastBatch, end)
	for n := 0; ; n++ {
		_, body, _, err := sc.Next()
		if err != nil {
			return err
		}
		if body == nil {
			break
		}
		if n%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if !s.usage.has(num) {
		return nil // it was retired, and its file may be used again
	}
	lost := func(off, length int64, reason string) {
		d.State, d.Offset, d.Length = meta.DamageMended, off, length
		d.Reason = reason + "; what the index needs of it is copied"
		s.ReportLoss(num, d)
	}
	for _, x := range sc.Holes {
		lost(x.Off, x.Length, "a record cannot be read here")
	}
	if known := s.usage.get(num).end; sc.End < known {
		lost(sc.End, known-sc.End, "the segment ends before it should")
	}
	return nil
}
