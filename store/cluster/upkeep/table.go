package upkeep

import (
	"iter"
	"maps"
	"math/rand/v2"
	"time"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/cluster/plan"
)

// pages is the number of pages of objects at rest. An object is in the page of the first bits of its address.
const (
	pages     = 1 << 10
	pageShift = 6 // of the first two bytes of an address, to the number of its page
)

// table has the objects of this node that have a target, at most limit: entries of those that something happens to, at
// most about activeLimit, and in few bytes those at rest. It is not safe for concurrent use.
type table struct {
	terms
	limit, activeLimit int

	active  map[b3.Root]*entry
	changed map[*entry]struct{} // active ones that something happened to since they were planned
	all     bool                // the next tick plans all active ones
	pages   [pages]page
	resting int // objects in pages

	pass               uint64 // number of the current pass over the pins
	passes             uint64 // passes that ended
	unplanned, skipped int    // objects for which there was no room in this pass, and in the one before
}

// terms holds what plans depend on besides the objects and the members.
type terms struct {
	self  plan.ID
	p     plan.Params
	now   func() time.Time
	begun uint64 // when the service was made, Unix milliseconds
}

// page has objects at rest.
type page struct {
	*plan.Page // nil: none

	view    uint64    // version of the view with which they were looked at last
	until   time.Time // with that view none of them has anything to do before
	sum     Sum       // of them, with that view
	changed time.Time // since when it differs from what is kept over a restart; zero: it does not
}

// A mark says of an object in a page which pass over the pins saw it last, and in which a member told of it: so much of
// their numbers that a pass is told from the one before.
type mark byte

const (
	passesInMark = 15
	// unconfirmed is the mark of what is from before a restart, while no pin of it was seen.
	unconfirmed mark = passesInMark << 4
)

func markOf(pass, told uint64) mark { return mark(pass%passesInMark<<4 | told%passesInMark) }

func (m mark) known() bool           { return m>>4 != passesInMark }
func (m mark) saw(pass uint64) bool  { return m>>4 == mark(pass%passesInMark) }
func (m mark) told(pass uint64) bool { return m&0xf == mark(pass%passesInMark) }

func newTable(t terms) table {
	return table{
		terms: t, limit: maxObjects, activeLimit: maxActive,
		active: map[b3.Root]*entry{}, changed: map[*entry]struct{}{},
	}
}

func pageOf(root b3.Root) int { return (int(root[0])<<8 | int(root[1])) >> pageShift }

func (t *table) len() int { return len(t.active) + t.resting }

// leftOut returns how many objects the latest pass had no room for.
func (t *table) leftOut() int { return max(t.unplanned, t.skipped) }

// crowded reports whether no more objects can be active for now.
func (t *table) crowded() bool { return len(t.active) >= t.activeLimit }

// errCrowded says that too many objects are active.
func errCrowded() error {
	return status.Errorf(status.Busy, "too many objects have copies that are missing or move; ask again later")
}

// packed returns an object at rest.
func (t *table) packed(root b3.Root) (k plan.Packed, ok bool) {
	if pg := t.pages[pageOf(root)]; pg.Page != nil {
		return pg.Get(root)
	}
	return k, false
}

// add puts an active object that is at rest into its page, and reports whether it fits.
func (t *table) add(e *entry, p plan.Params, now time.Time) bool {
	pg := &t.pages[pageOf(e.Root)]
	if pg.Page == nil {
		pg.Page = plan.NewPage(p)
	}
	if !pg.Add(e.Object, byte(markOf(e.pass, e.told))) {
		return false
	}
	pg.change(now)
	t.resting++
	t.remove(e)
	return true
}

// insert makes e the entry of its object, which the next tick plans.
func (t *table) insert(e *entry) {
	t.active[e.Root] = e
	t.changed[e] = struct{}{}
}

// toPlan returns the active entries, all or those that something happened to, in random order.
func (t *table) toPlan(all bool) iter.Seq[*entry] {
	if all {
		return maps.Values(t.active)
	}
	return maps.Keys(t.changed)
}

// touch has the next tick plan e, if that is active.
func (t *table) touch(e *entry) {
	if t.active[e.Root] == e {
		t.changed[e] = struct{}{}
	}
}

// remove removes an active entry.
func (t *table) remove(e *entry) {
	delete(t.active, e.Root)
	delete(t.changed, e)
}

// find returns the entry of an object for a change. It is active from then on, and the next tick plans it.
func (t *table) find(root b3.Root) *entry {
	if e := t.active[root]; e != nil {
		t.touch(e)
		return e
	}
	k, ok := t.packed(root)
	if !ok {
		return nil
	}
	e := t.unpack(k, nil, t.now())
	t.activate(e)
	return e
}

// peek returns the entry of an object for reading.
func (t *table) peek(root b3.Root) *entry {
	if e := t.active[root]; e != nil {
		return e
	}
	if k, ok := t.packed(root); ok {
		return t.unpack(k, nil, t.now())
	}
	return nil
}

// unpack returns what is known of an object at rest. With the view v it rests on; v may be nil.
func (t *table) unpack(k plan.Packed, v *plan.View, now time.Time) *entry {
	e := &entry{Object: k.Unpack(v, t.p, now), placed: true}
	e.Sure = e.ProvedSince(t.p.Floor(t.started())) // as times in pages are
	m := mark(*k.Mark())
	if t.pass > 0 {
		e.pass = t.pass - 1
	}
	switch {
	case m.saw(t.pass):
		e.pass, e.own = t.pass, e.OwnTarget(t.self)
	case !m.known():
		e.ResetTargets()
	}
	if m.told(t.pass) {
		e.told = t.pass
	}
	return e
}

// activate makes an entry that was unpacked the one of its object.
func (t *table) activate(e *entry) {
	pg := &t.pages[pageOf(e.Root)]
	pg.Remove(e.Root)
	pg.change(t.now())
	pg.sum.add(e.restSum(-1))
	t.resting--
	t.insert(e)
}

// somePlanned calls yield for active objects, in random order, and then for objects at rest from a random page on,
// until it returns false. These are not active: see activate.
func (t *table) somePlanned(v *plan.View, now time.Time, yield func(*entry) bool) {
	for _, e := range t.active { // the order of a map is random
		if !yield(e) {
			return
		}
	}
	first := rand.IntN(pages)
	for i := range pages {
		pg := &t.pages[(first+i)%pages]
		if pg.Page == nil || pg.view != v.Version() {
			continue
		}
		for k := range pg.All {
			if known(k) && !yield(t.unpack(k, v, now)) {
				return
			}
		}
	}
}

// known reports whether a pin of an object at rest was seen since the start. Before that its targets are not known.
func known(k plan.Packed) bool { return mark(*k.Mark()).known() }

// rests reports whether an entry can be put into a page.
func (t *table) rests(e *entry, v *plan.View, now time.Time) bool {
	return e.Here && e.placed && e.unkept == 0 && e.coded == nil &&
		e.adopted.Seq == 0 && e.released == 0 && e.AtRest(v, now) &&
		(e.pass == t.pass && e.own.SameCopies(e.OwnTarget(t.self)) || e.pass != t.pass && t.passes > 0)
}

// change notes that the page differs from what is kept over a restart.
func (pg *page) change(now time.Time) {
	if pg.changed.IsZero() {
		pg.changed = now
	}
}

// rests notes an object of the page that is at rest until then.
func (pg *page) rests(e *entry, until time.Time) {
	pg.sum.add(e.restSum(1))
	if until.Before(pg.until) {
		pg.until = until
	}
}

// started returns when the service was made. Proofs from before are those of holders that may have none any more.
func (t *table) started() time.Time { return time.UnixMilli(int64(t.begun)) }

// settle puts active objects that are at rest with a view into pages.
func (t *table) settle(list []*entry, v *plan.View, now time.Time) {
	touched := map[*page]bool{}
	for _, e := range list {
		if t.active[e.Root] != e || !t.rests(e, v, now) {
			continue // something happened to it meanwhile
		}
		pg := &t.pages[pageOf(e.Root)]
		if empty := pg.Page == nil || pg.Len() == 0; empty {
			pg.view, pg.until, pg.sum = v.Version(), now.Add(t.p.AuditPeriod), Sum{}
		}
		if t.add(e, t.p, now) {
			pg.rests(e, e.Resting(v))
			touched[pg] = true
		}
	}
	if len(t.active) == 0 { // a map keeps the size that it once had
		t.active, t.changed = map[b3.Root]*entry{}, map[*entry]struct{}{}
	}
	for pg := range touched {
		pg.Clip()
		if pg.view != v.Version() {
			pg.view = 0
		}
	}
}

// endedPages ends a pass for the objects at rest. Those that it did not see become active as far as there is room, and
// are looked at again in the next pass otherwise. Objects from the records of an earlier run for which no pin asked go.
func (t *table) endedPages(now time.Time) {
	for i := range t.pages {
		pg := &t.pages[i]
		if pg.Page == nil {
			continue
		}
		var unseen []*entry
		for k := range pg.All {
			if known(k) && !mark(*k.Mark()).saw(t.pass) {
				unseen = append(unseen, t.unpack(k, nil, now))
			}
		}
		for _, e := range unseen {
			if !t.crowded() {
				t.activate(e)
			}
		}
		before := pg.Len()
		pg.RemoveFunc(func(k plan.Packed) bool { return !known(k) })
		if n := before - pg.Len(); n > 0 {
			t.resting -= n
			pg.change(now)
		}
	}
}
