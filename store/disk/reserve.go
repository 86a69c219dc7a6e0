package disk

import (
	"context"
	"log/slog"
	"math"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/internal/ballast"
	"allium/store/disk/fsys"
	"allium/store/meta"
)

// The ballast is a part of store.reserve_bytes that the store fills in advance with
// files in ballast/. If other programs fill the disk, the store deletes ballast to
// write what frees space: records of removals, the index and their directories. The
// reserve is compared with the free space plus the ballast. A reserve below 16 MiB is
// smaller than four times its ballast; the excess is in addition to the reserve.
const (
	// ballastShare is the divisor of the reserve that gives the ballast: a fourth.
	ballastShare = 4
	// minBallast and maxBallast bound the ballast. minBallast fits a write-ahead log
	// of the index. More than maxBallast is useless: the store frees space again
	// after it has written a few MiB.
	minBallast = 4 << 20
	maxBallast = 16 << 20
	// ballastInterval is the interval at which the store tries to restore used ballast.
	ballastInterval = 5 * time.Second
)

// reserve guards the free space that writes must leave on the disk, and the ballast.
type reserve struct {
	fs       vfs.FS
	dir      string
	bytes    int64 // store.reserve_bytes
	ballast  *ballast.Ballast
	log      *slog.Logger
	readOnly error // why nothing may be written; nil if the disk is written
}

// ballastInReserve returns how many bytes of the reserve are ballast now.
func (r *reserve) ballastInReserve() int64 { return min(r.ballast.Bytes(), r.bytes/ballastShare) }

// free returns the free bytes of the disk, including the ballast in the reserve.
// known is false if the file system cannot tell.
func (r *reserve) free() (n int64, known bool) {
	u, err := r.fs.GetDiskUsage(r.dir)
	if err != nil {
		return 0, false
	}
	return int64(min(u.AvailBytes, math.MaxInt64-maxBallast)) + r.ballastInReserve(), true
}

// space returns no_space if a write of need bytes would leave less than the reserve
// free. It allows every write if the file system cannot tell its free space.
func (r *reserve) space(need int64) error { return r.spaceBeyond(r.bytes, need) }

// spaceBeyond is space for a reserve of the given bytes.
func (r *reserve) spaceBeyond(bytes, need int64) error {
	if r.readOnly != nil {
		return r.readOnly
	}
	if free, known := r.free(); known && free-bytes < need {
		return meta.NoSpace("the disk is full (store.reserve_bytes are kept free)", max(0, free-bytes), need)
	}
	return nil
}

// indexSpace returns no_space while neither the ballast nor the disk has space for a
// write to the index.
func (r *reserve) indexSpace() error {
	if r.ballast.Bytes() >= ballast.Step {
		return nil
	}
	if u, err := r.fs.GetDiskUsage(r.dir); err == nil && u.AvailBytes < ballast.Step {
		return meta.NoSpace("the disk is full and the ballast of the store is used up",
			int64(u.AvailBytes), ballast.Step)
	}
	return nil
}

// serve fills the ballast whenever the disk has space, until ctx is done. It fills
// minBallast at once, so that even a short-lived process leaves that much.
func (r *reserve) serve(ctx context.Context) {
	r.fill(minBallast)
	tick := time.NewTicker(ballastInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			r.fill(r.ballast.Size())
		}
	}
}

// fill fills the ballast up to size bytes if the disk has space.
func (r *reserve) fill(size int64) {
	for r.ballast.Bytes() < size {
		more, err := r.ballast.Fill(r.bytes + r.ballast.Bytes() - r.ballastInReserve())
		if err != nil && !fsys.Full(err) {
			r.log.Warn("the store cannot write its ballast; on a full disk removals may fail", "err", err)
		}
		if err != nil || !more {
			return
		}
	}
}

// ballastSize returns the bytes of ballast for a reserve in bytes.
func ballastSize(reserve int64) int64 {
	return min(max(reserve/ballastShare, minBallast), maxBallast)
}
