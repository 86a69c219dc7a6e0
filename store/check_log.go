package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"allium/store/segment/record"

	"allium/store/disk"
)

// CheckLog reads the log from its first segment to its last, without the bodies'
// addresses, and notes what cannot be read in the list of damage: a damaged header
// of a record that the index knows harms nobody until the index is made anew. What
// the index needs of a damaged segment is then copied. It returns how many
// segments it read.
func (s *Store) CheckLog(ctx context.Context) (segments int, err error) {
	if err := s.admit(ctx); err != nil {
		return 0, err
	}
	defer s.leave()
	d, ok := s.backend.(*disk.Backend)
	if !ok {
		return 0, nil // RAM has no log
	}
	nums, err := d.Segments()
	if err != nil {
		return 0, err
	}
	for _, num := range nums {
		if err := s.admission.Alive(ctx); err != nil {
			return segments, err
		}
		err := d.CheckSegment(ctx, num)
		if errors.Is(err, fs.ErrNotExist) {
			continue // compaction retired it meanwhile
		}
		if err != nil {
			return segments, fmt.Errorf("store: check segment %s: %w", record.FileName(num), err)
		}
		segments++
	}
	return segments, nil
}
