package segment

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"sync/atomic"
	"time"

	"allium/store/segment/record"

	"allium/store/index"
	"allium/store/meta"
)

// Compactor gives the space of removed objects back: it copies what is live out
// of a sealed segment of which less than half is, or three quarters when space is
// short, through the writer, and retires the file. It works on one segment at a time, and looks when it is
// told that one qualifies.
type Compactor struct {
	s     *Log
	log   *slog.Logger
	rate  int64                  // bytes/s it may move
	space func(need int64) error // no_space when there is none even for moves
	short func() bool            // says that space is short: no pacing, and less is worth moving for

	segments, copied, reclaimed atomic.Int64 // since the start
}

// CompactOptions say how a log is compacted.
type CompactOptions struct {
	Log   *slog.Logger
	Rate  int64                  // bytes/s that it may move
	Space func(need int64) error // no_space when there is none even for moves
	Short func() bool            // says that space is short: no pacing, and less is worth moving for
}

// NewCompactor returns the compactor of a log, which Serve runs.
func NewCompactor(s *Log, o CompactOptions) *Compactor {
	return &Compactor{s: s, log: o.Log, rate: o.Rate, space: o.Space, short: o.Short}
}

// Stats returns how many segments were compacted since the start, the bytes that
// were copied for that, and those that it gave back.
func (c *Compactor) Stats() (segments, copied, reclaimed int64) {
	return c.segments.Load(), c.copied.Load(), c.reclaimed.Load()
}

// Coming returns how many bytes the compactor is about to give back. When space is
// short, it is told to look.
func (c *Compactor) Coming() int64 {
	short := c.short()
	n := c.s.use.wastedBytes(short)
	if short && n > 0 {
		nudge(c.s.tidy)
	}
	return n
}

const (
	moveBatch = 1 << 20 // bytes of records that are moved between two pauses
	deadShare = 8       // what passing a record by costs, as a share of moving it

	firstRetry = time.Second
	lastRetry  = 5 * time.Minute

	sealShare = 8                // the garbage for which the segment being written is ended early, as a share of a segment
	sealIdle  = 30 * time.Second // in which the segment grew by no more than an 8th of that; else it fills up by itself
)

// Serve compacts until ctx is done. After an error, such as no_space, it waits
// longer and longer, or until there is more to gain.
func (c *Compactor) Serve(ctx context.Context) {
	wait := firstRetry
	var again, idle <-chan time.Time
	var then index.Position
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.s.tidy:
		case <-again:
		case <-idle:
			idle = nil
			c.seal(then)
		}
		if idle == nil && c.s.use.tailWasted() {
			then, idle = c.s.use.where(), time.After(sealIdle)
		}
		again = nil
		if err := c.rescueAll(ctx); err != nil && ctx.Err() == nil {
			c.log.Warn("what is left of damaged segments could not be copied; it is tried again", "err", err, "in", wait)
			again = time.After(wait)
			wait = min(2*wait, lastRetry)
		}
		for num := c.next(); num != 0; num = c.next() {
			if err := c.compact(ctx, num); err != nil {
				if ctx.Err() != nil {
					return
				}
				c.log.Warn("a segment could not be compacted; it is tried again", "segment", record.FileName(num), "err", err, "in", wait)
				again = time.After(wait)
				wait = min(2*wait, lastRetry)
				break
			}
			wait = firstRetry
		}
	}
}

// next is the segment to compact, 0 for none. While damage is open nothing is.
func (c *Compactor) next() uint64 {
	if open, _ := c.s.damage.Open(); open > 0 {
		return 0
	}
	return c.s.use.worst(c.short())
}

// rescueAll copies what the index needs out of segments that are damaged, and
// marks what cannot be read. Their files stay; a segment that is missing, in the
// bucket too, is no longer part of the log then.
func (c *Compactor) rescueAll(ctx context.Context) error {
	nums := c.s.hurt.take()
	for i, num := range nums {
		if err := c.rescue(ctx, num); err != nil {
			for _, num := range nums[i:] {
				c.s.hurt.add(num)
			}
			return err
		}
	}
	return nil
}

func (c *Compactor) rescue(ctx context.Context, num uint64) error {
	m := &mover{write: c.s.move, c: c, ctx: ctx, num: num, most: min(moveBatch/2, c.s.size/8)}
	var err error
	if c.s.bucket != nil {
		if m.shipped, err = c.s.bucket.HasSegment(num); err != nil {
			return err
		}
	}
	if err := m.sweepAll(); err != nil {
		return err
	}
	_, err = c.s.fs.Stat(c.s.path(num))
	if m.shipped && errors.Is(err, fs.ErrNotExist) {
		return nil // it comes back when the store opens and the bucket is there
	}
	if !errors.Is(err, fs.ErrNotExist) || num == c.s.use.where().Seg {
		return meta.ReadError(err)
	}
	if err := c.s.index.Sync(); err != nil {
		return err
	}
	if err := c.s.move([]*change{{kind: retireSegment, from: num}}); err != nil {
		return err
	}
	c.s.use.retire(num)
	c.s.files.drop(num)
	return nil
}

// seal has the writer end the segment that it writes, when it has hardly grown
// since then; if that is mostly garbage, it is compacted next. What is moved for
// that is less than the garbage, and is not moved again before as much of it is
// garbage: the segment that begins holds nothing else.
func (c *Compactor) seal(then index.Position) {
	now := c.s.use.where()
	if now.Seg == 0 || now.Seg != then.Seg || now.Off-then.Off > c.s.size/sealShare/sealShare {
		return
	}
	_ = c.s.move([]*change{{kind: sealTail, from: now.Seg}}) // what fails is sticky, or is tried again
}

// compact empties segment num and retires it.
func (c *Compactor) compact(ctx context.Context, num uint64) error {
	m := &mover{write: c.s.move, c: c, ctx: ctx, num: num, most: min(moveBatch/2, c.s.size/8)}
	if err := m.scan(); err != nil {
		return err
	}
	if err := m.sweep(); err != nil {
		return err
	}
	// Only when no crash can bring back an index that names the segment.
	if err := c.s.index.Sync(); err != nil {
		return err
	}
	size := c.s.use.get(num).size
	if err := c.s.move([]*change{{kind: retireSegment, from: num}}); err != nil {
		return err
	}
	if err := c.s.retire(num, !c.short(), m.damaged); err != nil {
		return err
	}
	c.segments.Add(1)
	c.copied.Add(m.total)
	c.reclaimed.Add(size - m.total)
	return nil
}
