package store

import (
	"encoding/binary"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"allium/protocols/b3"
)

// changeKind says what a change does. The writer decides whether it still
// applies; it alone changes the index, so that what it finds there holds until
// it is through.
type changeKind uint8

const (
	changeFile    changeKind = iota // a large object is in place: e
	changeRemove                    // remove e, unless it is gone or was stored anew
	changePin                       // set pin
	changeUnpin                     // drop pin.Root's pin of pin.Label
	changeMark                      // set e's corrupt flag to on, unless its bytes are elsewhere now
	changeTouch                     // note uses
	moveObject                      // append body again, when e still is where it was
	moveFile                        // append e's record again, when that still is in segment from
	movePin                         // the same for a pin
	moveTombstone                   // append again, when e.root is still gone and an older segment is there
	moveUnpin                       // the same for pin.Label of pin.Root
	sealTail                        // end the segment that is written, when that still is from and pays
)

// change is one order to the writer.
type change struct {
	kind changeKind
	e    entry
	pin  Pin
	on   bool
	used map[b3.Root]second
	body []byte
	from uint64 // segment of the record that moves

	did bool // set by the writer, to be read when the ticket is settled: it had an effect
}

// size is an upper bound of the bytes that c adds to the log.
func (c *change) size() int64 {
	switch c.kind {
	case changeMark, changeTouch, sealTail:
		return 0
	case changeFile, moveFile, moveObject:
		return recordOf(c.e)
	case changePin, movePin:
		return pinRecordSize(c.pin.Label)
	case changeUnpin, moveUnpin:
		return unpinRecordSize(c.pin.Label)
	}
	return recordHeaderSize
}

// maxChanges bounds how many changes gather for one batch, and touchChunk how
// many uses one change notes.
const (
	maxChanges = 4096
	touchChunk = 512
)

// changes are orders that share a sync.
type changes struct {
	list   []*change
	bytes  int64 // of the budget
	ticket *ticket
}

func newChanges() *changes { return &changes{ticket: newTicket()} }

// plan is what a flight does: bytes for the log, and a batch for the index.
type plan struct {
	s       *segments
	b       *pebble.Batch
	r       pebble.Reader // the index, with b where b can tell
	now     second
	buf     []byte // records of changes
	objects []byte // records of objects, behind them

	before, after []entry
	deltas        []delta
	done          []*change // those with an effect
}

// plan works out what f does. The changes come first, each seeing those before
// it, as a replay of the log will.
func (s *segments) plan(f flight) (*plan, error) {
	p := &plan{s: s, r: s.index.db, now: s.clock.takeOff(), buf: s.scratch[:0]}
	if f.changes == nil {
		p.b = s.index.db.NewBatch()
	} else {
		p.b = s.index.db.NewIndexedBatch()
		p.r = p.b
		for _, c := range f.changes.list {
			did, err := p.change(c)
			if err != nil {
				return p, err
			}
			if did {
				p.done = append(p.done, c)
			}
		}
		s.scratch = p.buf
	}
	if f.objects != nil {
		return p, p.store(f.objects)
	}
	return p, nil
}

// store plans the objects of b.
func (p *plan) store(b *batch) error {
	s, live := p.s, int64(0)
	at := s.log.end + int64(len(p.buf))
	for _, it := range b.items {
		old, ok, err := s.index.getFrom(p.r, it.root)
		if err != nil {
			return err
		}
		if ok && !old.corrupt {
			continue // another batch had it; this record is garbage
		}
		if ok {
			p.take(old)
		}
		e := entry{root: it.root, size: int64(it.length), seg: s.log.num, off: at + int64(it.off) + recordHeaderSize, added: p.now}
		p.after = append(p.after, e)
		live += recordOf(e)
		if err := setEntry(p.b, e); err != nil {
			return err
		}
	}
	b.seal(s.log.epoch, p.now)
	p.objects = b.buf
	p.deltas = append(p.deltas, delta{seg: s.log.num, live: live})
	return nil
}

// take counts e out.
func (p *plan) take(e entry) {
	p.before = append(p.before, e)
	p.deltas = append(p.deltas, delta{seg: e.seg, live: -recordOf(e)})
}

// give counts e in.
func (p *plan) give(e entry) {
	p.after = append(p.after, e)
	p.deltas = append(p.deltas, delta{seg: e.seg, live: recordOf(e)})
}

// replace enters now where old was.
func (p *plan) replace(old, now entry) error {
	p.take(old)
	p.give(now)
	return setEntry(p.b, now)
}

// change plans one change; did says that it has an effect.
func (p *plan) change(c *change) (did bool, err error) {
	switch c.kind {
	case changeFile:
		return p.file(c)
	case changeRemove:
		return p.remove(c)
	case changePin, movePin:
		return p.setPin(c)
	case changeUnpin:
		return p.dropPin(c)
	case changeMark:
		return p.mark(c)
	case changeTouch:
		return true, p.touch(c.used)
	case moveObject, moveFile:
		return p.move(c)
	case sealTail:
		return p.s.log.num == c.from && p.s.use.tailWasted(), nil
	}
	return p.carry(c)
}

func (p *plan) file(c *change) (bool, error) {
	old, ok, err := p.s.index.getFrom(p.r, c.e.root)
	if err != nil || ok && !old.corrupt {
		return false, err
	}
	e := c.e
	e.seg, e.added = p.s.log.num, p.now
	p.buf = appendFileRecord(p.buf, p.s.log.epoch, e)
	if ok {
		p.take(old)
	}
	p.give(e)
	if c.on {
		if err := dropPart(p.b, e.root); err != nil {
			return false, err
		}
	}
	return true, p.s.setFile(p.b, e)
}

func (p *plan) remove(c *change) (bool, error) {
	old, ok, err := p.s.index.getFrom(p.r, c.e.root)
	if err != nil || !ok || !old.sameAs(c.e) {
		return false, err
	}
	p.buf = appendTombstone(p.buf, p.s.log.epoch, old.root)
	p.take(old)
	p.deltas = append(p.deltas, delta{seg: p.s.log.num, tomb: recordHeaderSize})
	return true, p.s.dropEntry(p.b, old)
}

// dropEntry removes what the index knows of an object.
func (s *segments) dropEntry(b *pebble.Batch, e entry) error {
	err := errors.Join(b.Delete(rootKey(keyObject, e.root), nil), b.Delete(rootKey(keyUse, e.root), nil))
	if err == nil && !small(e.size) {
		err = s.cloud.remove(b, e.root)
	}
	return err
}

// setFile enters a large object, which nobody is to delete in the bucket.
func (s *segments) setFile(b *pebble.Batch, e entry) error {
	return errors.Join(b.Delete(rootKey(keyRemoved, e.root), nil), setEntry(b, e))
}

func (p *plan) setPin(c *change) (bool, error) {
	old, seg, ok, err := p.s.index.pin(p.r, c.pin.Root, c.pin.Label)
	if err != nil || c.kind == movePin && (!ok || seg != c.from || old != c.pin) {
		return false, err
	}
	n := pinRecordSize(c.pin.Label)
	if ok {
		p.deltas = append(p.deltas, delta{seg: seg, live: -n})
	}
	p.buf = appendPinRecord(p.buf, p.s.log.epoch, c.pin)
	p.deltas = append(p.deltas, delta{seg: p.s.log.num, live: n})
	return true, p.b.Set(pinKey(c.pin.Root, c.pin.Label), pinValue(c.pin, p.s.log.num), nil)
}

func (p *plan) dropPin(c *change) (bool, error) {
	_, seg, ok, err := p.s.index.pin(p.r, c.pin.Root, c.pin.Label)
	if err != nil || !ok {
		return false, err
	}
	p.buf = appendUnpinRecord(p.buf, p.s.log.epoch, c.pin.Root, c.pin.Label)
	p.deltas = append(p.deltas,
		delta{seg: seg, live: -pinRecordSize(c.pin.Label)},
		delta{seg: p.s.log.num, tomb: unpinRecordSize(c.pin.Label)})
	return true, p.b.Delete(pinKey(c.pin.Root, c.pin.Label), nil)
}

func (p *plan) mark(c *change) (bool, error) {
	old, ok, err := p.s.index.getFrom(p.r, c.e.root)
	if err != nil || !ok || old.corrupt == c.on || !old.samePlace(c.e) {
		return false, err
	}
	now := old
	now.corrupt = c.on
	return true, p.replace(old, now)
}

func (p *plan) touch(used map[b3.Root]second) error {
	for root, at := range used {
		e, ok, err := p.s.index.getFrom(p.r, root)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		last, err := p.s.index.usedAt(e)
		if err != nil {
			return err
		}
		if at <= last {
			continue
		}
		if err := p.b.Set(rootKey(keyUse, root), binary.AppendUvarint(nil, uint64(at)), nil); err != nil {
			return err
		}
	}
	return nil
}

// move appends a record again and enters the new place.
func (p *plan) move(c *change) (bool, error) {
	old, ok, err := p.s.index.getFrom(p.r, c.e.root)
	if err != nil || !ok || old.seg != c.from || !old.samePlace(c.e) {
		return false, err
	}
	now := old
	now.seg = p.s.log.num
	if c.kind == moveFile {
		p.buf = appendFileRecord(p.buf, p.s.log.epoch, now)
		return true, p.replace(old, now)
	}
	now.off = p.s.log.end + int64(len(p.buf)) + recordHeaderSize
	head := len(p.buf)
	p.buf = append(beginRecord(p.buf), c.body...)
	putRecordHeader(p.buf[head:], p.s.log.epoch, record{kind: kindObject, root: now.root, length: len(c.body), added: now.added})
	return true, p.replace(old, now)
}

// carry appends a tombstone or a dropped pin again, where a record before it may
// still say otherwise.
func (p *plan) carry(c *change) (bool, error) {
	if !p.s.use.hasOlder(c.from) {
		return false, nil
	}
	head := len(p.buf)
	if c.kind == moveTombstone {
		_, ok, err := p.s.index.getFrom(p.r, c.e.root)
		if err != nil || ok {
			return false, err
		}
		p.buf = appendTombstone(p.buf, p.s.log.epoch, c.e.root)
	} else {
		_, _, ok, err := p.s.index.pin(p.r, c.pin.Root, c.pin.Label)
		if err != nil || ok {
			return false, err
		}
		p.buf = appendUnpinRecord(p.buf, p.s.log.epoch, c.pin.Root, c.pin.Label)
	}
	p.deltas = append(p.deltas, delta{seg: p.s.log.num, tomb: int64(len(p.buf) - head)})
	return true, nil
}
