package segment

import (
	"slices"

	"allium/protocols/b3"
	"allium/store/index"
	"allium/store/meta"
	"allium/store/segment/record"
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
	changeForget                    // drop the keys of removals that were carried out: gone
	retireSegment                   // note that segment from is not part of the log any more
)

// change is one order to the writer.
type change struct {
	kind  changeKind
	e     meta.Entry
	pin   meta.Pin
	on    bool
	roots []b3.Root     // of changeTouch, ascending
	uses  []meta.Second // their last uses
	age   meta.Second
	gone  map[b3.Root]uint64
	body  []byte
	from  uint64 // segment of the record that moves

	did bool // set by the writer, to be read when the ticket is settled: it had an effect
}

// size is an upper bound of the bytes that c adds to the log.
func (c *change) size() int64 {
	switch c.kind {
	case changeMark, changeTouch, changeForget, sealTail:
		return 0
	case retireSegment:
		return record.RetiredSize
	case changeFile, moveFile, moveObject:
		return record.SizeOf(c.e)
	case changePin, movePin:
		return record.PinSize(c.pin.Label)
	case changeUnpin, moveUnpin:
		return record.UnpinSize(c.pin.Label)
	}
	return record.HeadSize
}

// changes are orders that share a sync.
type changes struct {
	list   []*change
	bytes  int64 // of the budget
	ticket *ticket
}

func newChanges() *changes { return &changes{ticket: newTicket()} }

// plan is what a commit batch does: bytes for the log, and a batch for the index.
type plan struct {
	s       *Log
	b       *index.Batch // sees its own changes where there are any
	now     meta.Second
	recs    record.Builder // of changes
	objects *batch         // whose records are behind them; nil for none
	listed  int            // bytes of recs that are the list of segments, with which a segment begins
	retired []uint64
	wrote   bool // the records are durable

	before, after []meta.Entry
	deltas        []delta
	done          []*change // those with an effect
}

// plan works out what f does. The changes come first, each seeing those before
// it, as a replay of the log will.
func (s *Log) plan(f commitBatch) (*plan, error) {
	p := &plan{s: s, now: s.clock.BeginCommit(), recs: s.scratch}
	p.recs.Reset()
	if s.log.f != nil && s.log.end == record.HeaderSize {
		p.recs.Segments(index.EncodeSegments(s.use.logSet()))
		p.listed = p.recs.Len()
	}
	if f.changes == nil {
		p.b = s.index.NewBatch()
	} else {
		p.b = s.index.NewReadingBatch()
		for _, c := range f.changes.list {
			did, err := p.change(c)
			if err != nil {
				return p, err
			}
			if did {
				p.done = append(p.done, c)
			}
		}
		s.scratch = p.recs
	}
	if f.objects != nil {
		return p, p.store(f.objects)
	}
	return p, nil
}

// store plans the objects of b.
func (p *plan) store(b *batch) error {
	s, live := p.s, int64(0)
	at := p.end()
	items := slices.SortedFunc(slices.Values(b.Records()), func(a, b record.Placed) int { return meta.CompareRoots(a.Root, b.Root) })
	roots := make([]b3.Root, len(items))
	for i, it := range items {
		roots[i] = it.Root
	}
	olds, err := p.b.GetAll(roots)
	if err != nil {
		return err
	}
	for i, it := range items {
		old := olds[i]
		there := !old.Root.IsZero()
		if there && !old.Corrupt {
			continue // another batch had it; this record is garbage
		}
		if there {
			p.take(old)
		}
		e := meta.Entry{Root: it.Root, Size: int64(it.Length), Seg: s.log.num, Off: at + int64(it.Off) + record.HeadSize, Added: p.now}
		p.after = append(p.after, e)
		live += record.SizeOf(e)
		if err := p.b.ReplaceEntry(e); err != nil {
			return err
		}
	}
	p.objects = b
	p.deltas = append(p.deltas, delta{seg: s.log.num, live: live})
	return nil
}

// end is the offset in the segment where the next record of a change goes.
func (p *plan) end() int64 { return p.s.log.end + int64(p.recs.Len()) }

// seal completes the records, of batch number, and returns what is to be written;
// the length is 0 when there is nothing.
func (p *plan) seal(number uint64) (parts [2][]byte, n int64) {
	if p.objects != nil {
		parts[1] = p.objects.Bytes()
	}
	if p.recs.Len() == p.listed && len(parts[1]) == 0 {
		p.listed = 0
		return [2][]byte{}, 0
	}
	at := p.s.log.end
	parts[0] = p.recs.Bytes()
	p.recs.Seal(p.s.log.epoch, number, at, int64(len(parts[1])))
	if p.objects != nil {
		p.objects.Stamp(p.now)
		p.objects.Seal(p.s.log.epoch, number, at+int64(len(parts[0])), 0)
	}
	return parts, int64(len(parts[0]) + len(parts[1]))
}

// take counts e out.
func (p *plan) take(e meta.Entry) {
	p.before = append(p.before, e)
	p.deltas = append(p.deltas, delta{seg: e.Seg, live: -record.SizeOf(e)})
}

// give counts e in.
func (p *plan) give(e meta.Entry) {
	p.after = append(p.after, e)
	p.deltas = append(p.deltas, delta{seg: e.Seg, live: record.SizeOf(e)})
}

// replace enters now where old was.
func (p *plan) replace(old, now meta.Entry) error {
	p.take(old)
	p.give(now)
	return p.b.ReplaceEntry(now)
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
		return true, p.b.Touch(c.roots, c.uses, c.age)
	case changeForget:
		return p.forget(c)
	case moveObject, moveFile:
		return p.move(c)
	case sealTail:
		return p.s.log.num == c.from && p.s.use.tailWasted(), nil
	case retireSegment:
		p.recs.Retired(c.from)
		p.retired = append(p.retired, c.from)
		return true, nil
	}
	return p.carry(c)
}

func (p *plan) file(c *change) (bool, error) {
	old, ok, err := p.b.Get(c.e.Root)
	if err != nil || ok && !old.Corrupt {
		return false, err
	}
	if c.on { // unless it was removed since its files were found
		if _, going, err := p.b.GoneNumber(c.e.Root); err != nil || going {
			return false, err
		}
	}
	e := c.e
	e.Seg, e.Added = p.s.log.num, p.now
	p.recs.File(e)
	if ok {
		p.take(old)
	}
	p.give(e)
	return true, p.b.SetEntry(e)
}

func (p *plan) remove(c *change) (bool, error) {
	old, ok, err := p.b.Get(c.e.Root)
	if err != nil || !ok || !old.SameAs(c.e) {
		return false, err
	}
	p.recs.Tombstone(old.Root)
	p.take(old)
	p.deltas = append(p.deltas, delta{seg: p.s.log.num, tomb: record.HeadSize})
	return true, p.s.dropEntry(p.b, old)
}

// dropEntry removes what the index knows of an object.
func (s *Log) dropEntry(b *index.Batch, e meta.Entry) error {
	err := b.DropEntry(e.Root)
	if err == nil && !meta.Small(e.Size) {
		if err = s.noteGone(b, e.Root); err == nil && s.bucket != nil {
			err = s.bucket.Remove(b, e.Root)
		}
	}
	return err
}

// noteGone notes in b that root's files are to be unlinked.
func (s *Log) noteGone(b *index.Batch, root b3.Root) error {
	s.gone++
	return b.SetGone(root, s.gone)
}

func (p *plan) setPin(c *change) (bool, error) {
	old, seg, ok, err := p.b.Pin(c.pin.Root, c.pin.Label)
	if err != nil || c.kind == movePin && (!ok || seg != c.from || old != c.pin) {
		return false, err
	}
	n := record.PinSize(c.pin.Label)
	if ok {
		p.deltas = append(p.deltas, delta{seg: seg, live: -n})
	}
	p.recs.Pin(c.pin)
	p.deltas = append(p.deltas, delta{seg: p.s.log.num, live: n})
	return true, p.b.SetPin(c.pin, p.s.log.num)
}

func (p *plan) dropPin(c *change) (bool, error) {
	_, seg, ok, err := p.b.Pin(c.pin.Root, c.pin.Label)
	if err != nil || !ok {
		return false, err
	}
	p.recs.Unpin(c.pin.Root, c.pin.Label)
	p.deltas = append(p.deltas,
		delta{seg: seg, live: -record.PinSize(c.pin.Label)},
		delta{seg: p.s.log.num, tomb: record.UnpinSize(c.pin.Label)})
	return true, p.b.DropPin(c.pin.Root, c.pin.Label)
}

func (p *plan) mark(c *change) (bool, error) {
	old, ok, err := p.b.Get(c.e.Root)
	if err != nil || !ok || old.Corrupt == c.on || !old.SamePlace(c.e) {
		return false, err
	}
	now := old
	now.Corrupt = c.on
	return true, p.replace(old, now)
}

// move appends a record again and enters the new place.
func (p *plan) move(c *change) (bool, error) {
	old, ok, err := p.b.Get(c.e.Root)
	if err != nil || !ok || old.Seg != c.from || !old.SamePlace(c.e) {
		return false, err
	}
	now := old
	now.Seg = p.s.log.num
	if c.kind == moveFile {
		p.recs.File(now)
		return true, p.replace(old, now)
	}
	now.Off = p.end() + record.HeadSize
	p.recs.Object(now, c.body)
	return true, p.replace(old, now)
}

// carry appends a tombstone or a dropped pin again, where a record before it may
// still say otherwise.
func (p *plan) carry(c *change) (bool, error) {
	if !p.s.use.hasOlder(c.from) {
		if c.kind != moveTombstone {
			return false, nil
		}
		// While the files may be there, the tombstone accounts for them.
		if _, going, err := p.b.GoneNumber(c.e.Root); err != nil || !going {
			return false, err
		}
	}
	head := p.recs.Len()
	if c.kind == moveTombstone {
		_, ok, err := p.b.Get(c.e.Root)
		if err != nil || ok {
			return false, err
		}
		p.recs.Tombstone(c.e.Root)
	} else {
		_, _, ok, err := p.b.Pin(c.pin.Root, c.pin.Label)
		if err != nil || ok {
			return false, err
		}
		p.recs.Unpin(c.pin.Root, c.pin.Label)
	}
	p.deltas = append(p.deltas, delta{seg: p.s.log.num, tomb: int64(p.recs.Len() - head)})
	return true, nil
}

// forget drops the keys of removals that were carried out.
func (p *plan) forget(c *change) (bool, error) {
	for root, number := range c.gone {
		now, ok, err := p.b.GoneNumber(root)
		if err != nil {
			return false, err
		}
		if !ok || now != number {
			continue // it was stored, or removed again
		}
		if err := p.b.DropGone(root); err != nil {
			return false, err
		}
	}
	return true, nil
}

// maxChanges bounds how many changes gather for one batch, and touchChunk how
// many uses one change notes.
const (
	maxChanges = 4096
	touchChunk = 512
)
