package segment

import (
	"slices"

	"allium/protocols/b3"
	"allium/store/disk/segment/codec"
	"allium/store/disk/tables"
	"allium/store/meta"
)

// changeKind is the kind of a change. The writer decides whether a change still applies when it is planned.
type changeKind uint8

const (
	changeFile           changeKind = iota // enter entry, a large object whose files are in place
	changeRemove                           // remove entry, unless it is gone or was stored again
	changePin                              // set pin
	changeUnpin                            // drop the pin with pin.Root, pin.Label and pin.Released
	changeTarget                           // set the target of the pin with pin.Root and pin.Label to pin.Target
	changeMark                             // set entry's corrupt flag to corrupt, unless its bytes moved
	changeTouch                            // set the last uses of roots
	moveObject                             // append entry with body again, if entry is still in segment
	moveFile                               // append entry's record again, if entry is still in segment
	movePin                                // append pin again, if pin is still in segment
	moveTombstone                          // append again, if entry.Root is still gone and an older segment exists
	moveUnpin                              // append again, if the pin is still gone and an older segment exists
	sealActive                             // end the active segment, if it is still segment and worth compacting
	changeForgetRemovals                   // drop the notes in removals, whose files are deleted
	retireSegment                          // record that segment left the log
)

// change is one change for the writer. Which fields are set depends on its kind.
type change struct {
	kind          changeKind
	entry         meta.Entry
	pin           meta.Pin
	now           uint64 // of changeUnpin: Unix milliseconds, the number of a removed target
	corrupt       bool   // of changeMark
	unlessRemoved bool   // of changeFile: skip an entry whose removal is noted
	touch         touch
	removals      map[b3.Root]uint64
	body          []byte
	segment       uint64 // the segment that is compacted, sealed or retired

	applied bool // set by the writer if the change had an effect; valid once the ticket is settled
}

// touch holds the fields of a changeTouch.
type touch struct {
	roots    []b3.Root     // ascending, at most touchChunk
	lastUses []meta.Second // of roots
	minAge   meta.Second   // seconds that a last use must be newer to be noted
}

// size returns an upper bound of the bytes that c adds to the log.
func (c *change) size() int64 {
	switch c.kind {
	case changeMark, changeTouch, changeForgetRemovals, sealActive:
		return 0
	case retireSegment:
		return codec.RetiredSize
	case changeFile, moveFile, moveObject:
		return codec.EntrySize(c.entry)
	case changePin, changeTarget, movePin:
		return codec.PinSize(c.pin) + codec.TargetSize // of the pin that it replaces, whose target may stay
	case changeUnpin, moveUnpin:
		return codec.PinSize(c.pin) + codec.TargetSize // a pin with a target leaves a record of its removal
	}
	return codec.RecordHeaderSize
}

// plan is the work of one commit: the bytes for the log and the batch for the index.
type plan struct {
	log        *Log
	indexBatch *tables.Batch // reads its own writes when there are changes
	now        meta.Second
	records    codec.Builder // of the changes
	objects    *objectBatch  // its records follow; nil for none
	listBytes  int           // length of the list of segments with which records begins; 0 for none
	retired    []uint64
	durable    bool // the records are written and synced

	before, after []meta.Entry
	deltas        []delta
	applied       []*change // changes with an effect
}

// plan works out the records and index changes of f. The changes come before the objects,
// and each sees the effect of those before it, as in a replay of the log. The caller ends
// the commit with Clock.EndCommit.
func (s *Log) plan(f commitBatch) (*plan, error) {
	p := &plan{log: s, now: s.clock.BeginCommit(), records: s.scratch}
	p.records.Reset()
	if s.active.f != nil && s.active.end == codec.SegmentHeaderSize {
		p.records.Segments(tables.EncodeSegments(s.usage.logEnds()))
		p.listBytes = p.records.Len()
	}
	if f.changes == nil {
		p.indexBatch = s.index.NewBatch()
	} else {
		p.indexBatch = s.index.NewReadingBatch()
		for _, c := range f.changes.list {
			did, err := p.planChange(c)
			if err != nil {
				return p, err
			}
			if did {
				p.applied = append(p.applied, c)
			}
		}
		s.scratch = p.records
	}
	if f.objects != nil {
		return p, p.planObjects(f.objects)
	}
	return p, nil
}

// planObjects adds the index entries of the objects in b.
func (p *plan) planObjects(b *objectBatch) error {
	s, live := p.log, int64(0)
	at := p.nextOffset()
	items := slices.SortedFunc(slices.Values(b.Records()), func(a, b codec.Placed) int {
		return meta.CompareRoots(a.Root, b.Root)
	})
	roots := make([]b3.Root, len(items))
	for i, it := range items {
		roots[i] = it.Root
	}
	olds, err := p.indexBatch.GetAll(roots)
	if err != nil {
		return err
	}
	for i, it := range items {
		old := olds[i]
		exists := !old.Root.IsZero()
		if exists && !old.Corrupt {
			continue // another batch stored it; this record is garbage
		}
		if exists {
			p.countOut(old)
		}
		e := meta.Entry{
			Root: it.Root, Size: int64(it.Length), Seg: s.active.num,
			Off: at + int64(it.Off) + codec.RecordHeaderSize, Added: p.now,
		}
		p.after = append(p.after, e)
		live += codec.EntrySize(e)
		if err := p.indexBatch.ReplaceEntry(e); err != nil {
			return err
		}
	}
	p.objects = b
	p.deltas = append(p.deltas, delta{seg: s.active.num, live: live})
	return nil
}

// nextOffset returns the offset in the segment of the next record of a change.
func (p *plan) nextOffset() int64 { return p.log.active.end + int64(p.records.Len()) }

// seal completes the headers of the records, for batch number, and returns the bytes to
// write and their total length n. n is 0 when there is nothing to write.
func (p *plan) seal(number uint64) (parts [2][]byte, n int64) {
	if p.objects != nil {
		parts[1] = p.objects.Bytes()
	}
	if p.records.Len() == p.listBytes && len(parts[1]) == 0 {
		p.listBytes = 0
		return [2][]byte{}, 0
	}
	at := p.log.active.end
	parts[0] = p.records.Bytes()
	p.records.Seal(p.log.active.epoch, number, at, int64(len(parts[1])))
	if p.objects != nil {
		p.objects.SetAdded(p.now)
		p.objects.Seal(p.log.active.epoch, number, at+int64(len(parts[0])), 0)
	}
	return parts, int64(len(parts[0]) + len(parts[1]))
}

// countOut subtracts e from the totals and from its segment.
func (p *plan) countOut(e meta.Entry) {
	p.before = append(p.before, e)
	p.deltas = append(p.deltas, delta{seg: e.Seg, live: -codec.EntrySize(e)})
}

// countIn adds e to the totals and to its segment.
func (p *plan) countIn(e meta.Entry) {
	p.after = append(p.after, e)
	p.deltas = append(p.deltas, delta{seg: e.Seg, live: codec.EntrySize(e)})
}

// replaceEntry enters now in place of old.
func (p *plan) replaceEntry(old, now meta.Entry) error {
	p.countOut(old)
	p.countIn(now)
	return p.indexBatch.ReplaceEntry(now)
}

// planChange plans one change. applied reports whether it has an effect.
func (p *plan) planChange(c *change) (applied bool, err error) {
	switch c.kind {
	case changeFile:
		return p.addFile(c)
	case changeRemove:
		return p.remove(c)
	case changePin, movePin:
		return p.setPin(c)
	case changeTarget:
		return p.setTarget(c)
	case changeUnpin:
		return p.dropPin(c)
	case changeMark:
		return p.setCorrupt(c)
	case changeTouch:
		return true, p.indexBatch.Touch(c.touch.roots, c.touch.lastUses, c.touch.minAge)
	case changeForgetRemovals:
		return p.forgetRemovals(c)
	case moveObject, moveFile:
		return p.moveRecord(c)
	case sealActive:
		return p.log.active.num == c.segment && p.log.usage.tailWorthSealing(), nil
	case retireSegment:
		p.records.Retired(c.segment)
		p.retired = append(p.retired, c.segment)
		return true, nil
	}
	return p.copyRemoval(c)
}

func (p *plan) addFile(c *change) (bool, error) {
	old, ok, err := p.indexBatch.Get(c.entry.Root)
	if err != nil || ok && !old.Corrupt {
		return false, err
	}
	if c.unlessRemoved {
		if _, removed, err := p.indexBatch.FileRemoval(c.entry.Root); err != nil || removed {
			return false, err
		}
	}
	e := c.entry
	e.Seg, e.Added = p.log.active.num, p.now
	p.records.File(e)
	if ok {
		p.countOut(old)
	}
	p.countIn(e)
	return true, p.indexBatch.SetEntry(e)
}

func (p *plan) remove(c *change) (bool, error) {
	old, ok, err := p.indexBatch.Get(c.entry.Root)
	if err != nil || !ok || !old.SameAs(c.entry) {
		return false, err
	}
	p.records.Tombstone(old.Root)
	p.countOut(old)
	p.deltas = append(p.deltas, delta{seg: p.log.active.num, tomb: codec.RecordHeaderSize})
	return true, p.log.dropEntry(p.indexBatch, old)
}

func (p *plan) setPin(c *change) (bool, error) {
	old, seg, ok, err := p.indexBatch.Pin(c.pin.Root, c.pin.Label)
	if err != nil || c.kind == movePin && (!ok || seg != c.segment || old != c.pin) {
		return false, err
	}
	pin := c.pin
	if ok {
		p.deltas = append(p.deltas, delta{seg: seg, live: -codec.PinSize(old)})
		pin = pin.Replace(old)
	}
	return true, p.writePin(pin)
}

func (p *plan) setTarget(c *change) (bool, error) {
	pin, seg, ok, err := p.indexBatch.Pin(c.pin.Root, c.pin.Label)
	if err != nil || !ok || pin.Released || !c.pin.Target.Replaces(pin.Target) {
		return false, err
	}
	p.deltas = append(p.deltas, delta{seg: seg, live: -codec.PinSize(pin)})
	pin.Target = c.pin.Target
	return true, p.writePin(pin)
}

// writePin writes a pin in place of the one that the index has.
func (p *plan) writePin(pin meta.Pin) error {
	p.records.Pin(pin)
	p.deltas = append(p.deltas, delta{seg: p.log.active.num, live: codec.PinSize(pin)})
	return p.indexBatch.SetPin(pin, p.log.active.num)
}

// dropPin drops a pin. One with a target leaves the record that the target was removed, which
// another change drops.
func (p *plan) dropPin(c *change) (bool, error) {
	old, seg, ok, err := p.indexBatch.Pin(c.pin.Root, c.pin.Label)
	if err != nil || !ok || old.Released != c.pin.Released {
		return false, err
	}
	p.deltas = append(p.deltas, delta{seg: seg, live: -codec.PinSize(old)})
	if !old.Released && old.Target.Seq > 0 {
		return true, p.writePin(old.Release(c.now))
	}
	p.records.Unpin(c.pin.Root, c.pin.Label)
	p.deltas = append(p.deltas, delta{seg: p.log.active.num, tomb: codec.UnpinSize(c.pin.Label)})
	return true, p.indexBatch.DropPin(c.pin.Root, c.pin.Label)
}

func (p *plan) setCorrupt(c *change) (bool, error) {
	old, ok, err := p.indexBatch.Get(c.entry.Root)
	if err != nil || !ok || old.Corrupt == c.corrupt || !old.SamePlace(c.entry) {
		return false, err
	}
	now := old
	now.Corrupt = c.corrupt
	return true, p.replaceEntry(old, now)
}

// moveRecord appends a record again and enters its new place in the index.
func (p *plan) moveRecord(c *change) (bool, error) {
	old, ok, err := p.indexBatch.Get(c.entry.Root)
	if err != nil || !ok || old.Seg != c.segment || !old.SamePlace(c.entry) {
		return false, err
	}
	now := old
	now.Seg = p.log.active.num
	if c.kind == moveFile {
		p.records.File(now)
		return true, p.replaceEntry(old, now)
	}
	now.Off = p.nextOffset() + codec.RecordHeaderSize
	p.records.Object(now, c.body)
	return true, p.replaceEntry(old, now)
}

// maxChanges bounds the changes in one batch, pinChunk the pins that are set at once, and touchChunk the last
// uses in one change.
const (
	maxChanges = 4096
	pinChunk   = 512
	touchChunk = 512
)
