package store

import (
	"context"
	"fmt"
	"time"

	"allium/protocols/status"
	"allium/store/bucket/s3"
	"allium/store/disk"
	"allium/store/meta"
)

// Rebuild builds a new index for a store that no process has open. It reads the
// segments, and reads and hashes every large object in obj/ or in the bucket.
// With the s3 backend, cfg.Dir may be empty. The new index replaces the old one
// when it is complete; run an interrupted rebuild again. progress may be nil.
func Rebuild(
	ctx context.Context, cfg Config, deps Deps, progress func(disk.RebuildProgress),
) (disk.RebuildReport, error) {
	if err := cfg.Validate(); err != nil {
		return disk.RebuildReport{}, err
	}
	if cfg.Backend == BackendMemory {
		return disk.RebuildReport{}, status.Errorf(status.Amnesia,
			"the memory backend has no index to rebuild; set store.backend")
	}
	deps = deps.withDefaults()
	cfg, err := cfg.withAbsoluteDir(deps.FS)
	if err != nil {
		return disk.RebuildReport{}, err
	}
	meters := s3.NewMeters(cfg.S3, deps.Limits, deps.Metrics)
	report, err := disk.Rebuild(ctx, diskOptions(cfg, deps, meters, meta.NewClock(time.Now)), progress)
	if err != nil {
		return disk.RebuildReport{}, fmt.Errorf("rebuild the index: %w", err)
	}
	return report, nil
}
