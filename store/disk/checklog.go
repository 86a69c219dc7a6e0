package disk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"allium/store/disk/segment/codec"
)

// CheckLog reads the log from its first segment to its last. It adds what cannot
// be read to the list of damage, and copies what the index needs from a damaged
// segment. It checks headers but not whether bodies match their addresses. It
// returns how many segments it read. An error of alive ends it.
//
// It finds, for example, a damaged header of a record that the index knows. Such
// a record can still be read, but a rebuild of the index would lose it.
func (d *Backend) CheckLog(ctx context.Context, alive func(context.Context) error) (segments int, err error) {
	nums, err := d.segments.List()
	if err != nil {
		return 0, err
	}
	for _, num := range nums {
		if err := alive(ctx); err != nil {
			return segments, err
		}
		err := d.segments.Check(ctx, num)
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
