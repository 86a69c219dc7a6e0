package store

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/protocols/admission"
	"allium/protocols/b3"
)

// compactor gives the space of removed objects back: it copies what is live out
// of a sealed segment of which less than half is, or three quarters when space is
// short, through the writer, and retires the file. It works on one segment at a time, and looks when it is
// told that one qualifies.
type compactor struct {
	s     *segments
	log   *slog.Logger
	rate  int64                  // bytes/s it may move
	space func(need int64) error // no_space when there is none even for moves
	short func() bool            // says that space is short: no pacing, and less is worth moving for

	segments, copied, reclaimed atomic.Int64 // since the start
}

const (
	moveBatch   = 1 << 20   // bytes of records that are moved between two pauses
	deadShare   = 8         // what passing a record by costs, as a share of moving it
	compactRead = 256 << 10 // bytes read at a time; more than a record

	firstRetry = time.Second
	lastRetry  = 5 * time.Minute

	sealShare = 8                // the garbage for which the segment being written is ended early, as a share of a segment
	sealIdle  = 30 * time.Second // in which the segment grew by no more than an 8th of that; else it fills up by itself
)

// serve compacts until ctx is done. After an error, such as no_space, it waits
// longer and longer, or until there is more to gain.
func (c *compactor) serve(ctx context.Context) {
	wait := firstRetry
	var again, idle <-chan time.Time
	var then position
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
		for num := c.s.use.worst(c.short()); num != 0; num = c.s.use.worst(c.short()) {
			if err := c.compact(ctx, num); err != nil {
				if ctx.Err() != nil {
					return
				}
				c.log.Warn("a segment could not be compacted; it is tried again", "segment", segmentName(num), "err", err, "in", wait)
				again = time.After(wait)
				wait = min(2*wait, lastRetry)
				break
			}
			wait = firstRetry
		}
	}
}

// seal has the writer end the segment that it writes, when it has hardly grown
// since then; if that is mostly garbage, it is compacted next. What is moved for
// that is less than the garbage, and is not moved again before as much of it is
// garbage: the segment that begins holds nothing else.
func (c *compactor) seal(then position) {
	now := c.s.use.where()
	if now.seg == 0 || now.seg != then.seg || now.off-then.off > c.s.size/sealShare/sealShare {
		return
	}
	_ = c.s.move([]*change{{kind: sealTail, from: now.seg}}) // what fails is sticky, or is tried again
}

// compact empties segment num and retires it.
func (c *compactor) compact(ctx context.Context, num uint64) error {
	m := &mover{write: c.s.move, c: c, ctx: ctx, num: num, most: min(moveBatch/2, c.s.size/8)}
	if err := m.scan(); err != nil {
		return err
	}
	if err := m.sweep(); err != nil {
		return err
	}
	// Only when no crash can bring back an index that names the segment.
	if err := c.s.index.sync(); err != nil {
		return err
	}
	size := c.s.use.get(num).size
	if err := c.s.retire(num, !c.short()); err != nil {
		return err
	}
	c.segments.Add(1)
	c.copied.Add(m.total)
	c.reclaimed.Add(size - m.total)
	return nil
}

// mover copies the live records of one segment.
type mover struct {
	write func([]*change) error // segments.move
	c     *compactor
	ctx   context.Context // of one compaction
	num   uint64

	list  []*change
	bytes int64 // of list
	most  int64 // bytes that are moved at once: a small part of a segment, or closing one early would waste it
	seen  int64 // records queued
	total int64 // bytes moved
}

// scan moves what it finds from the first record on.
func (m *mover) scan() error {
	f, err := m.c.s.fs.Open(m.c.s.path(m.num))
	if err != nil {
		return readError(err)
	}
	defer f.Close()
	size, epoch, ok, err := readSegmentHeader(f)
	if err != nil || !ok {
		return err // what the index has of it is found by sweep
	}
	r := bufio.NewReaderSize(io.NewSectionReader(f, segmentHeaderSize, size), compactRead)
	for at, paced := int64(segmentHeaderSize), int64(0); ; {
		rec, body, err := nextRecord(r, epoch)
		if err != nil {
			return err
		}
		if body == nil {
			return m.flush()
		}
		before := m.seen
		if err := m.look(rec, body, at+recordHeaderSize); err != nil {
			return err
		}
		at += rec.size()
		_, _ = r.Discard(int(rec.size())) // was peeked
		paced += rec.size() / deadShare
		if m.seen > before {
			paced += rec.size()
		}
		if paced >= moveBatch {
			if err := m.pace(paced); err != nil {
				return err
			}
			paced = 0
		}
	}
}

// pace waits until n more bytes may be moved.
func (m *mover) pace(n int64) error {
	if m.c.short() {
		return m.ctx.Err()
	}
	return admission.Sleep(m.ctx, time.Duration(float64(n)/float64(m.c.rate)*float64(time.Second)))
}

// look decides what becomes of one record.
func (m *mover) look(rec record, body []byte, at int64) error {
	x := m.c.s.index
	switch rec.kind {
	case kindObject, kindFile:
		e, ok, err := x.get(rec.root)
		if err != nil || !ok || e.seg != m.num || small(e.size) && e.off != at {
			return err
		}
		if rec.kind == kindFile {
			return m.add(&change{kind: moveFile, e: e})
		}
		return m.object(e, body)
	case kindTombstone:
		return m.add(&change{kind: moveTombstone, e: entry{root: rec.root}})
	case kindPin:
		if p, ok := rec.pin(body); ok {
			return m.add(&change{kind: movePin, pin: p})
		}
	case kindUnpin:
		if label, ok := rec.unpin(body); ok {
			return m.add(&change{kind: moveUnpin, pin: Pin{Root: rec.root, Label: label}})
		}
	}
	return nil
}

// object moves a small object. One that is damaged is marked and left behind.
func (m *mover) object(e entry, body []byte) error {
	if b3.Sum(body) == e.root {
		return m.add(&change{kind: moveObject, e: e, body: append([]byte(nil), body...)})
	}
	m.c.log.Warn("an object was found damaged when its segment was compacted", "root", e.root)
	return m.c.s.do(&change{kind: changeMark, e: e, on: true})
}

// add queues a move.
func (m *mover) add(c *change) error {
	c.from = m.num
	m.seen++
	m.list = append(m.list, c)
	if m.bytes += c.size(); m.bytes >= m.most || len(m.list) >= maxChanges {
		return m.flush()
	}
	return nil
}

// flush moves what was queued.
func (m *mover) flush() error {
	if len(m.list) == 0 {
		return nil
	}
	if m.c != nil {
		if err := m.ctx.Err(); err != nil {
			return err
		}
		if err := m.c.space(m.bytes); err != nil {
			return err
		}
	}
	if err := m.write(m.list); err != nil {
		return err
	}
	for _, c := range m.list {
		if c.did {
			m.total += c.size()
		}
	}
	m.list, m.bytes = nil, 0
	return nil
}

// sweep moves what the scan could not reach, as a header on the way is damaged:
// it is found through the index.
func (m *mover) sweep() error {
	if m.c.s.use.get(m.num).live <= 0 {
		return nil
	}
	f, err := m.c.s.fs.Open(m.c.s.path(m.num))
	if err != nil {
		return readError(err)
	}
	defer f.Close()
	err = m.c.s.index.eachEntry(func(e entry) error { return m.rescue(f, e) })
	if err != nil {
		return err
	}
	err = m.c.s.index.eachPin(func(p Pin, seg uint64) error {
		if seg != m.num {
			return nil
		}
		return m.add(&change{kind: movePin, pin: p})
	})
	if err != nil {
		return err
	}
	return m.flush()
}

// rescue moves e when it is in the segment.
func (m *mover) rescue(f vfs.File, e entry) error {
	if err := m.ctx.Err(); err != nil || e.seg != m.num {
		return err
	}
	if !small(e.size) {
		return m.add(&change{kind: moveFile, e: e})
	}
	body := make([]byte, e.size)
	if n, err := f.ReadAt(body, e.off); n < len(body) {
		if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("%s: %w", e.root, readError(err))
		}
		body = nil
	}
	if e.corrupt && (body == nil || b3.Sum(body) != e.root) {
		return nil // stays behind, as it was
	}
	return m.object(e, body)
}
