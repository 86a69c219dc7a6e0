package store

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/protocols/status"
	"allium/store/bucket"
	"allium/store/disk"
	"allium/store/meta"
)

// Rebuild makes the index of a store that no node runs anew: from the segments,
// and from what is in obj/ or in the bucket, each large object read to its end
// and hashed. With the s3 backend cfg.Dir may be empty. The old index is
// replaced when the new one is complete; a rebuild that was cut off is run
// again. progress may be nil.
func Rebuild(ctx context.Context, cfg Config, deps Deps, progress func(disk.RebuildProgress)) (disk.RebuildReport, error) {
	if err := cfg.Validate(); err != nil {
		return disk.RebuildReport{}, err
	}
	if cfg.Backend == BackendMemory {
		return disk.RebuildReport{}, status.Errorf(status.Amnesia, "store: the memory backend has no index to rebuild; set store.backend")
	}
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	if deps.FS == nil {
		deps.FS = vfs.Default
		dir, err := filepath.Abs(cfg.Dir)
		if err != nil {
			return disk.RebuildReport{}, fmt.Errorf("store.dir: %w", err)
		}
		cfg.Dir = dir
	}
	report, err := disk.Rebuild(ctx, onDisk(cfg, deps, bucket.NewMeters(cfg.S3, deps.Limits, deps.Metrics), meta.NewClock(time.Now)), progress)
	if err != nil {
		return disk.RebuildReport{}, fmt.Errorf("store: rebuild: %w", err)
	}
	return report, nil
}
