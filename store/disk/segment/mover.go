package segment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"allium/store/disk/segment/codec"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/store/meta"
)

// mover copies the live records of one segment. FinishOpen uses one without a compactor,
// which then only batches the moves.
type mover struct {
	submit    func([]*change) error // commits the moves
	compactor *Compactor
	ctx       context.Context // of one compaction
	num       uint64

	list       []*change
	bytes      int64 // of list
	maxBytes   int64 // moved at once; a small part of a segment, as an oversized batch ends a segment early
	queued     int64 // records added to list so far
	movedBytes int64

	damaged bool // a part of the segment could not be read
	shipped bool // the bucket has the segment, in case it is missing here
}

// newMover returns a mover of the records of segment num.
func (c *Compactor) newMover(ctx context.Context, num uint64) *mover {
	return &mover{
		submit: c.segments.submitMoves, compactor: c, ctx: ctx, num: num,
		maxBytes: min(moveBatch/2, c.segments.segmentBytes/8),
	}
}

// scan reads the segment from the first record to the end and moves what is live.
func (m *mover) scan() error {
	f, err := m.compactor.segments.fs.Open(m.compactor.segments.path(m.num))
	if err != nil {
		return meta.ReadError(err)
	}
	defer f.Close()
	size, h, ok, head, err := codec.ReadSegmentHeader(f)
	if err != nil {
		return err
	}
	if !ok {
		if h, ok = codec.MendSegmentHeader(head); !ok {
			// moveMissed finds through the index what is needed.
			return m.noteDamage(meta.Damage{Length: size, Reason: "the header of a segment is damaged"})
		}
	}
	sc := codec.NewReader(f, h, h.Size(), h.LastBatch, size)
	for moved := int64(0); ; {
		rec, body, off, err := sc.Next()
		if err != nil {
			return err
		}
		if body == nil {
			return errors.Join(m.noteHoles(sc), m.flush())
		}
		before := m.queued
		if err := m.moveRecord(rec, body, off); err != nil {
			return err
		}
		moved += rec.Size() / skipShare
		if m.queued > before {
			moved += rec.Size()
		}
		if moved >= moveBatch {
			if err := m.throttle(moved); err != nil {
				return err
			}
			moved = 0
		}
	}
}

// noteHoles reports the places that could not be read. moveMissed copies what the index
// needs of them. Only removals are lost, which a rebuilt index might not know.
func (m *mover) noteHoles(sc *codec.Reader) error {
	for _, h := range sc.Holes {
		if !h.Mended {
			d := meta.Damage{Offset: h.Off, Length: h.Length, Reason: "no record can be read here"}
			if err := m.noteDamage(d); err != nil {
				return err
			}
		}
	}
	if end := m.compactor.segments.usage.get(m.num).end; sc.End < end {
		return m.noteDamage(meta.Damage{
			Offset: sc.End, Length: end - sc.End, Reason: "the segment ends before it should",
		})
	}
	return nil
}

// noteDamage reports damage of the segment, whose file is then kept in quarantine.
func (m *mover) noteDamage(d meta.Damage) error {
	m.damaged = true
	d.Kind, d.State, d.File = meta.DamageLog, meta.DamageMended, m.compactor.segments.Name(m.num)
	d.Reason += "; what the index needs was copied, and the file is kept"
	m.compactor.segments.damage.Add(d)
	return nil
}

// throttle waits for as long as moving n bytes may take. It does not wait when space is
// short.
func (m *mover) throttle(n int64) error {
	if m.compactor.opt.Short() {
		return m.ctx.Err()
	}
	return limits.Sleep(m.ctx, time.Duration(float64(n)/float64(m.compactor.opt.Rate)*float64(time.Second)))
}

// moveRecord moves one record if it is needed.
func (m *mover) moveRecord(rec codec.Record, body []byte, at int64) error {
	x := m.compactor.segments.index
	switch rec.Kind {
	case codec.KindObject, codec.KindFile:
		e, ok, err := x.Get(rec.Root)
		if err != nil || !ok || e.Seg != m.num || meta.Small(e.Size) && e.Off != at {
			return err
		}
		if rec.Kind == codec.KindFile {
			return m.add(&change{kind: moveFile, entry: e})
		}
		return m.moveObject(e, body)
	case codec.KindTombstone:
		return m.add(&change{kind: moveTombstone, entry: meta.Entry{Root: rec.Root}})
	case codec.KindPin:
		if p, ok := rec.Pin(body); ok {
			return m.add(&change{kind: movePin, pin: p})
		}
	case codec.KindUnpin:
		if !meta.Checksummed(body) {
			body, _ = codec.MendBody(body)
		}
		label, ok := rec.Unpin(body)
		if !ok {
			return m.noteDamage(meta.Damage{
				Offset: at, Length: int64(len(body)), Roots: []b3.Root{rec.Root},
				Reason: "the label of a dropped pin is damaged",
			})
		}
		return m.add(&change{kind: moveUnpin, pin: meta.Pin{Root: rec.Root, Label: label}})
	}
	return nil
}

// moveObject moves a small object. It marks a damaged one corrupt and leaves it behind.
func (m *mover) moveObject(e meta.Entry, body []byte) error {
	if b3.Sum(body) == e.Root {
		return m.add(&change{kind: moveObject, entry: e, body: append([]byte(nil), body...)})
	}
	m.compactor.opt.Log.Warn("found a damaged object while compacting its segment", "root", e.Root)
	return m.compactor.segments.submit(&change{kind: changeMark, entry: e, corrupt: true})
}

// add queues a move, and commits the queue when it is full.
func (m *mover) add(c *change) error {
	c.segment = m.num
	m.queued++
	m.list = append(m.list, c)
	if m.bytes += c.size(); m.bytes >= m.maxBytes || len(m.list) >= maxChanges {
		return m.flush()
	}
	return nil
}

// flush commits the queued moves.
func (m *mover) flush() error {
	if len(m.list) == 0 {
		return nil
	}
	if m.compactor != nil {
		if err := m.ctx.Err(); err != nil {
			return err
		}
		if err := m.compactor.opt.CheckSpace(m.bytes); err != nil {
			return err
		}
	}
	if err := m.submit(m.list); err != nil {
		return err
	}
	for _, c := range m.list {
		if c.applied {
			m.movedBytes += c.size()
		}
	}
	m.list, m.bytes = nil, 0
	return nil
}

// moveMissed moves what scan could not reach because of damage. It finds the objects and
// pins through the index.
func (m *mover) moveMissed() error {
	if m.compactor.segments.usage.get(m.num).live <= 0 {
		return nil
	}
	return m.moveIndexed()
}

// moveIndexed moves everything that the index has in the segment, whose file may be
// missing.
func (m *mover) moveIndexed() error {
	f, err := m.compactor.segments.fs.Open(m.compactor.segments.path(m.num))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f = nil
	case err != nil:
		return meta.ReadError(err)
	default:
		defer f.Close()
	}
	err = m.compactor.segments.index.EachEntry(func(e meta.Entry) error { return m.moveEntry(f, e) })
	if err != nil {
		return err
	}
	err = m.compactor.segments.index.EachPin(func(p meta.Pin, seg uint64) error {
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

// moveEntry moves e if it is in the segment. f is nil when the file is missing.
func (m *mover) moveEntry(f vfs.File, e meta.Entry) error {
	if err := m.ctx.Err(); err != nil || e.Seg != m.num {
		return err
	}
	if !meta.Small(e.Size) {
		return m.add(&change{kind: moveFile, entry: e})
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
		return nil // known to be corrupt: it is left behind
	}
	return m.moveObject(e, body)
}
