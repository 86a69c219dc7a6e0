package segment

import (
	"errors"
	"slices"

	"allium/store/segment/record"

	"allium/store/damage"
	"allium/store/meta"
)

// endRetired removes the files of segments that are not part of the log any
// more, where a crash came between.
func (r *recovery) endRetired() error {
	for num, end := range r.set {
		if end != retiredEnd {
			continue
		}
		delete(r.set, num)
		if err := r.removeRetired(num); err != nil {
			return err
		}
	}
	return nil
}

// removeRetired removes the file of a segment that is not part of the log any more.
// One of which a part cannot be read is put aside, as compaction does.
func (r *recovery) removeRetired(num uint64) error {
	s := r.s
	if !r.names[num] {
		return nil
	}
	delete(r.names, num)
	unread := func(f foundSegment) bool {
		return f.num == num && slices.ContainsFunc(f.scan.Holes, func(h record.Hole) bool { return !h.Mended })
	}
	if !s.damage.Names(s.Name(num)) && !slices.ContainsFunc(r.found, unread) {
		return meta.WriteError("remove a retired segment", s.fs.Remove(s.path(num)))
	}
	return s.putAside(num)
}

// putAside puts a damaged segment aside that is not part of the log any more. Where
// quarantine/ is full it stays, and the next start tries again.
func (s *Log) putAside(num uint64) error {
	err := s.setAside(s.path(num))
	if errors.Is(err, damage.ErrQuarantineFull) {
		s.logger.Warn("a damaged segment that is not part of the log any more stays where it is", "segment", record.FileName(num), "err", err)
		return nil
	}
	return err
}
