package disk

import (
	"context"
	"log/slog"
	"math"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/internal/ballast"
	"allium/store/fsys"
	"allium/store/meta"
)

// The ballast is a part of store.reserve_bytes that the store fills with files
// of its own, in ballast/: whatever else fills the disk leaves it that much to
// write what frees space: records of removals, the index, their directories.
// Free space and ballast together are what the reserve is compared with; a
// reserve below 16 MiB has its ballast beside it.
const (
	// ballastShare is the part of the reserve that is ballast: a fourth.
	ballastShare = 4
	// minBallast and maxBallast bound it. The least has room for a write-ahead log
	// of the index; more than the most is of no use, as what is written comes to a
	// few MiB before space is free again.
	minBallast = 4 << 20
	maxBallast = 16 << 20
	// ballastEvery is how often the store looks whether there is room to make the
	// ballast whole again.
	ballastEvery = 5 * time.Second
)

// reserve is the free space of the disk that writes leave, and the ballast.
type reserve struct {
	fs      vfs.FS
	dir     string
	bytes   int64 // store.reserve_bytes
	ballast *ballast.Ballast
	log     *slog.Logger
	frozen  error // why nothing may be written; nil: it may
}

// held is the part of the reserve that the ballast holds now.
func (r *reserve) held() int64 { return min(r.ballast.Held(), r.bytes/ballastShare) }

// free is what the disk has left, the ballast among it; known is false when the
// file system cannot tell.
func (r *reserve) free() (n int64, known bool) {
	u, err := r.fs.GetDiskUsage(r.dir)
	if err != nil {
		return 0, false
	}
	return int64(min(u.AvailBytes, math.MaxInt64-maxBallast)) + r.held(), true
}

// space refuses a write that would leave less than the reserve free. File systems
// that cannot tell are taken at their word.
func (r *reserve) space(need int64) error { return r.spaceBut(r.bytes, need) }

// spaceBut is space for a reserve of that size.
func (r *reserve) spaceBut(bytes, need int64) error {
	if r.frozen != nil {
		return r.frozen
	}
	if free, known := r.free(); known && free-bytes < need {
		return meta.NoSpace("the disk is full (store.reserve_bytes are kept free)", max(0, free-bytes), need)
	}
	return nil
}

// indexRoom refuses a write to the index when neither the ballast nor the disk
// has space for it: no_space, until there is some.
func (r *reserve) indexRoom() error {
	if r.ballast.Held() >= ballast.Step {
		return nil
	}
	if u, err := r.fs.GetDiskUsage(r.dir); err == nil && u.AvailBytes < ballast.Step {
		return meta.NoSpace("the disk is full and the ballast of the store is used up", int64(u.AvailBytes), ballast.Step)
	}
	return nil
}

// serve makes the ballast whole whenever there is room, until ctx is done. It
// begins with minBallast, so that a process of a moment leaves that much.
func (r *reserve) serve(ctx context.Context) {
	r.fill(minBallast)
	tick := time.NewTicker(ballastEvery)
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

// fill makes the ballast up to a size, if there is room.
func (r *reserve) fill(size int64) {
	for r.ballast.Held() < size {
		more, err := r.ballast.Fill(r.bytes + r.ballast.Held() - r.held())
		if err != nil && !fsys.Full(err) {
			r.log.Warn("the ballast of the store cannot be made; on a full disk removals may fail", "err", err)
		}
		if err != nil || !more {
			return
		}
	}
}

// ballastSize is how large the ballast of a store with that reserve is.
func ballastSize(reserve int64) int64 {
	return min(max(reserve/ballastShare, minBallast), maxBallast)
}
