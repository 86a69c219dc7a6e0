package disk

import (
	"context"
	"time"

	"allium/internal/ballast"
	"allium/store/fsys"
	"allium/store/index"
	"allium/store/meta"
)

// The ballast is a part of store.reserve_bytes that the store fills with files
// of its own, in dirBallast: whatever else fills the disk leaves it that much to
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

// held is the part of the reserve that the ballast holds now.
func (d *Backend) held() int64 { return min(d.ballast.Held(), int64(d.cfg.ReserveBytes)/ballastShare) }

// indexIn opens the index in dir.
func (d *Backend) indexIn(dir string, fresh bool) (*index.Index, error) {
	return index.Open(index.Options{
		FS: d.fs, Dir: dir, Cache: int64(d.cfg.IndexCache), Files: d.cfg.IndexFiles, Fresh: fresh, Still: d.frozen != nil, Log: d.log, Room: d.indexRoom,
	})
}

// indexRoom refuses a write to the index when neither the ballast nor the disk
// has space for it: no_space, until there is some.
func (d *Backend) indexRoom() error {
	if d.ballast.Held() >= ballast.Step {
		return nil
	}
	if u, err := d.fs.GetDiskUsage(d.cfg.Dir); err == nil && u.AvailBytes < ballast.Step {
		return meta.NoSpace("the disk is full and the ballast of the store is used up", int64(u.AvailBytes), ballast.Step)
	}
	return nil
}

// keepBallast makes the ballast whole whenever there is room, until ctx is done.
// It begins with minBallast, so that a process of a moment leaves that much.
func (d *Backend) keepBallast(ctx context.Context) {
	d.fillBallast(minBallast)
	tick := time.NewTicker(ballastEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			d.fillBallast(d.ballast.Size())
		}
	}
}

// fillBallast makes the ballast up to a size, if there is room.
func (d *Backend) fillBallast(size int64) {
	for d.ballast.Held() < size {
		more, err := d.ballast.Fill(int64(d.cfg.ReserveBytes) + d.ballast.Held() - d.held())
		if err != nil && !fsys.Full(err) {
			d.log.Warn("the ballast of the store cannot be made; on a full disk removals may fail", "err", err)
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
