package segment

import (
	"errors"
	"slices"

	"allium/store/disk/segment/codec"

	"allium/store/disk/damage"
	"allium/store/meta"
)

// removeRetiredFiles removes the files of segments that had left the log when a crash came.
func (r *recovery) removeRetiredFiles() error {
	for num, end := range r.ends {
		if end != retiredEnd {
			continue
		}
		delete(r.ends, num)
		if err := r.removeRetiredFile(num); err != nil {
			return err
		}
	}
	return nil
}

// removeRetiredFile removes the file of a segment that left the log. A damaged file goes to
// quarantine, as in compaction.
func (r *recovery) removeRetiredFile(num uint64) error {
	s := r.s
	if !r.onDisk[num] {
		return nil
	}
	delete(r.onDisk, num)
	unread := func(f scannedSegment) bool {
		return f.num == num && slices.ContainsFunc(f.reader.Holes, func(h codec.Hole) bool { return !h.Mended })
	}
	if !s.damage.Names(s.Name(num)) && !slices.ContainsFunc(r.scanned, unread) {
		return meta.WriteError("remove a retired segment", s.fs.Remove(s.path(num)))
	}
	return s.quarantineRetired(num)
}

// quarantineRetired moves the file of a damaged segment that left the log to quarantine.
// When quarantine is full the file stays, and the next start tries again.
func (s *Log) quarantineRetired(num uint64) error {
	err := s.quarantine(s.path(num))
	if errors.Is(err, damage.ErrQuarantineFull) {
		s.logger.Warn("a damaged segment left the log, but its file cannot be moved to quarantine",
			"segment", codec.FileName(num), "err", err)
		return nil
	}
	return err
}
