package segment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"allium/store/segment/record"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/store/meta"
)

// mover copies the live records of one segment.
type mover struct {
	write func([]*change) error // segments.move
	c     *Compactor
	ctx   context.Context // of one compaction
	num   uint64

	list  []*change
	bytes int64 // of list
	most  int64 // bytes that are moved at once: a small part of a segment, or closing one early would waste it
	seen  int64 // records queued
	total int64 // bytes moved

	damaged bool // part of the segment could not be read
	shipped bool // the bucket has the segment, should it be missing here
}

// scan moves what it finds from the first record on.
func (m *mover) scan() error {
	f, err := m.c.s.fs.Open(m.c.s.path(m.num))
	if err != nil {
		return meta.ReadError(err)
	}
	defer f.Close()
	size, h, ok, head, err := record.ReadHeader(f)
	if err != nil {
		return err
	}
	if !ok {
		if h, ok = record.MendHeader(head); !ok {
			return m.hurt(meta.Damage{Length: size, Reason: "the header of a segment is damaged"}) // what the index has of it is found by sweep
		}
	}
	sc := record.NewReader(f, h, h.Size(), h.Batch, size)
	for paced := int64(0); ; {
		rec, body, off, err := sc.Next()
		if err != nil {
			return err
		}
		if body == nil {
			return errors.Join(m.judge(sc), m.flush())
		}
		before := m.seen
		if err := m.look(rec, body, off); err != nil {
			return err
		}
		paced += rec.Size() / deadShare
		if m.seen > before {
			paced += rec.Size()
		}
		if paced >= moveBatch {
			if err := m.pace(paced); err != nil {
				return err
			}
			paced = 0
		}
	}
}

// judge notes what could not be read of a segment. The index knows what of it is
// needed, and sweep copies that; what is gone is removals, which a new index might
// not know.
func (m *mover) judge(sc *record.Reader) error {
	for _, h := range sc.Holes {
		if !h.Mended {
			if err := m.hurt(meta.Damage{Offset: h.Off, Length: h.Length, Reason: "no record can be read here"}); err != nil {
				return err
			}
		}
	}
	if end := m.c.s.use.get(m.num).end; sc.End < end {
		return m.hurt(meta.Damage{Offset: sc.End, Length: end - sc.End, Reason: "the segment ends before it should"})
	}
	return nil
}

// hurt notes damage of the segment, after which its file is kept.
func (m *mover) hurt(d meta.Damage) error {
	m.damaged = true
	d.Kind, d.State, d.File = meta.DamageLog, meta.DamageMended, m.c.s.Name(m.num)
	d.Reason += "; what the index needs was copied, and the file is kept"
	m.c.s.damage.Add(d)
	return nil
}

// pace waits until n more bytes may be moved.
func (m *mover) pace(n int64) error {
	if m.c.short() {
		return m.ctx.Err()
	}
	return limits.Sleep(m.ctx, time.Duration(float64(n)/float64(m.c.rate)*float64(time.Second)))
}

// look decides what becomes of one record.
func (m *mover) look(rec record.Record, body []byte, at int64) error {
	x := m.c.s.index
	switch rec.Kind {
	case record.KindObject, record.KindFile:
		e, ok, err := x.Get(rec.Root)
		if err != nil || !ok || e.Seg != m.num || meta.Small(e.Size) && e.Off != at {
			return err
		}
		if rec.Kind == record.KindFile {
			return m.add(&change{kind: moveFile, e: e})
		}
		return m.object(e, body)
	case record.KindTombstone:
		return m.add(&change{kind: moveTombstone, e: meta.Entry{Root: rec.Root}})
	case record.KindPin:
		if p, ok := rec.Pin(body); ok {
			return m.add(&change{kind: movePin, pin: p})
		}
	case record.KindUnpin:
		if !meta.Checksummed(body) {
			body, _ = record.MendBody(body)
		}
		label, ok := rec.Unpin(body)
		if !ok {
			return m.hurt(meta.Damage{Offset: at, Length: int64(len(body)), Roots: []b3.Root{rec.Root}, Reason: "the label of a pin that was removed is damaged"})
		}
		return m.add(&change{kind: moveUnpin, pin: meta.Pin{Root: rec.Root, Label: label}})
	}
	return nil
}

// object moves a small object. One that is damaged is marked and left behind.
func (m *mover) object(e meta.Entry, body []byte) error {
	if b3.Sum(body) == e.Root {
		return m.add(&change{kind: moveObject, e: e, body: append([]byte(nil), body...)})
	}
	m.c.log.Warn("an object was found damaged when its segment was compacted", "root", e.Root)
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
	return m.sweepAll()
}

// sweepAll is sweep for a segment that may be missing.
func (m *mover) sweepAll() error {
	f, err := m.c.s.fs.Open(m.c.s.path(m.num))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f = nil
	case err != nil:
		return meta.ReadError(err)
	default:
		defer f.Close()
	}
	err = m.c.s.index.EachEntry(func(e meta.Entry) error { return m.rescue(f, e) })
	if err != nil {
		return err
	}
	err = m.c.s.index.EachPin(func(p meta.Pin, seg uint64) error {
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
func (m *mover) rescue(f vfs.File, e meta.Entry) error {
	if err := m.ctx.Err(); err != nil || e.Seg != m.num {
		return err
	}
	if !meta.Small(e.Size) {
		return m.add(&change{kind: moveFile, e: e})
	}
	if f == nil && m.shipped {
		return nil
	}
	body := make([]byte, e.Size)
	if f == nil {
		body = nil
	} else if n, err := f.ReadAt(body, e.Off); n < len(body) {
		if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("%s: %w", e.Root, meta.ReadError(err))
		}
		body = nil
	}
	if e.Corrupt && (body == nil || b3.Sum(body) != e.Root) {
		return nil // stays behind, as it was
	}
	return m.object(e, body)
}
