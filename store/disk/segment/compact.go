package segment

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"sync/atomic"
	"time"

	"allium/store/disk/segment/codec"

	"allium/store/disk/tables"
	"allium/store/meta"
)

// Compactor gives back the space of removed objects. It copies the live records out of a
// sealed segment through the writer, and retires the segment. A segment qualifies when less
// than half of it is live, or less than three quarters when space is short. The Compactor
// works on one segment at a time and waits for a signal that one qualifies.
type Compactor struct {
	segments *Log
	opt      CompactOptions

	compacted, copied, reclaimed atomic.Int64 // segments and bytes since the start
}

// CompactOptions configure a Compactor. All fields must be set.
type CompactOptions struct {
	Log        *slog.Logger
	Rate       int64                  // bytes/s that it may move
	CheckSpace func(need int64) error // fails with no_space when there is no space even for moves
	Short      func() bool            // space is short: move at full speed, and from more segments
}

// NewCompactor returns a compactor of s. Serve runs it.
func NewCompactor(s *Log, o CompactOptions) *Compactor {
	return &Compactor{segments: s, opt: o}
}

// Stats returns how many segments were compacted since the start, how many bytes were
// copied for that, and how many bytes it gave back.
func (c *Compactor) Stats() (segments, copied, reclaimed int64) {
	return c.compacted.Load(), c.copied.Load(), c.reclaimed.Load()
}

// PendingBytes returns how many bytes compaction will give back. When that is not 0 and
// space is short, it also wakes the compactor.
func (c *Compactor) PendingBytes() int64 {
	short := c.opt.Short()
	n := c.segments.usage.reclaimableBytes(short)
	if short && n > 0 {
		signal(c.segments.wakeCompactor)
	}
	return n
}

const (
	moveBatch = 1 << 20 // bytes of records that are moved between two pauses
	skipShare = 8       // skipping a record costs this fraction (1/8) of moving it

	firstRetry = time.Second
	lastRetry  = 5 * time.Minute

	// The active segment is ended early when its garbage is at least 1/sealShare of a segment, and
	// it grew by no more than 1/sealShare of that within sealIdle: otherwise it fills up by itself.
	sealShare = 8
	sealIdle  = 30 * time.Second
)

// Serve compacts until ctx is done. After an error, such as no_space, it retries with
// exponential back-off from firstRetry to lastRetry, and whenever another segment
// qualifies.
func (c *Compactor) Serve(ctx context.Context) {
	wait := firstRetry
	var again, idle <-chan time.Time
	var then tables.Position
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.segments.wakeCompactor:
		case <-again:
		case <-idle:
			idle = nil
			c.sealIdleTail(then)
		}
		if idle == nil && c.segments.usage.tailWorthSealing() {
			then, idle = c.segments.usage.position(), time.After(sealIdle)
		}
		again = nil
		if err := c.rescueDamaged(ctx); err != nil && ctx.Err() == nil {
			c.opt.Log.Warn("cannot copy what is left of damaged segments; trying again", "err", err, "in", wait)
			again = time.After(wait)
			wait = min(2*wait, lastRetry)
		}
		for num := c.nextSegment(); num != 0; num = c.nextSegment() {
			if err := c.compact(ctx, num); err != nil {
				if ctx.Err() != nil {
					return
				}
				c.opt.Log.Warn("cannot compact a segment; trying again",
					"segment", codec.FileName(num), "err", err, "in", wait)
				again = time.After(wait)
				wait = min(2*wait, lastRetry)
				break
			}
			wait = firstRetry
		}
	}
}

// nextSegment returns the segment to compact, 0 for none. While there is open damage,
// nothing is compacted.
func (c *Compactor) nextSegment() uint64 {
	if open, _ := c.segments.damage.Open(); open > 0 {
		return 0
	}
	return c.segments.usage.candidate(c.opt.Short())
}

// rescueDamaged copies what the index needs out of damaged segments, and marks the objects
// that cannot be read. The files stay. A segment that is missing, also from the bucket,
// then leaves the log.
func (c *Compactor) rescueDamaged(ctx context.Context) error {
	nums := c.segments.damaged.drain()
	for i, num := range nums {
		if err := c.rescueSegment(ctx, num); err != nil {
			for _, num := range nums[i:] {
				c.segments.damaged.add(num)
			}
			return err
		}
	}
	return nil
}

func (c *Compactor) rescueSegment(ctx context.Context, num uint64) error {
	m := c.newMover(ctx, num)
	var err error
	if c.segments.bucket != nil {
		if m.shipped, err = c.segments.bucket.HasSegment(num); err != nil {
			return err
		}
	}
	if err := m.moveIndexed(); err != nil {
		return err
	}
	_, err = c.segments.fs.Stat(c.segments.path(num))
	if m.shipped && errors.Is(err, fs.ErrNotExist) {
		return nil // the next start that reaches the bucket fetches it
	}
	if !errors.Is(err, fs.ErrNotExist) || num == c.segments.usage.position().Seg {
		return meta.ReadError(err)
	}
	if err := c.segments.index.Sync(); err != nil {
		return err
	}
	if err := c.segments.submitMoves([]*change{{kind: retireSegment, segment: num}}); err != nil {
		return err
	}
	c.segments.usage.remove(num)
	c.segments.files.drop(num)
	return nil
}

// sealIdleTail has the writer end the active segment if it has hardly grown since then. If
// it is mostly garbage, it is compacted next. This moves less than the garbage, and the
// moved records are not moved again until as much of their new segment is garbage.
func (c *Compactor) sealIdleTail(then tables.Position) {
	now := c.segments.usage.position()
	if now.Seg == 0 || now.Seg != then.Seg || now.Off-then.Off > c.segments.segmentBytes/sealShare/sealShare {
		return
	}
	// An error is permanent and reported elsewhere, or the next call tries again.
	_ = c.segments.submitMoves([]*change{{kind: sealActive, segment: now.Seg}})
}

// compact moves the live records out of segment num and retires it.
func (c *Compactor) compact(ctx context.Context, num uint64) error {
	m := c.newMover(ctx, num)
	if err := m.scan(); err != nil {
		return err
	}
	if err := m.moveMissed(); err != nil {
		return err
	}
	// After this sync, no index that a crash brings back names the segment.
	if err := c.segments.index.Sync(); err != nil {
		return err
	}
	size := c.segments.usage.get(num).size
	if err := c.segments.submitMoves([]*change{{kind: retireSegment, segment: num}}); err != nil {
		return err
	}
	if err := c.segments.retireFile(num, !c.opt.Short(), m.damaged); err != nil {
		return err
	}
	c.compacted.Add(1)
	c.copied.Add(m.movedBytes)
	c.reclaimed.Add(size - m.movedBytes)
	return nil
}
