package upkeep

import (
	"math/rand/v2"
	"time"

	"allium/protocols/b3"
	"allium/store/cluster/plan"
)

// todo holds the actions that a plan of all objects begins.
type todo struct {
	calls map[plan.ID]*calls
	drops []planned
	sends []planned
	n     int

	all     bool   // all active objects were planned, not only those that something happened to
	awaited bool   // somebody waits for copies that are missing, or that this node hands over; or many are active
	change  Change // of a whole tick
}

// at returns the calls of a member.
func (t *todo) at(id plan.ID) *calls {
	c := t.calls[id]
	if c == nil {
		c = &calls{}
		t.calls[id] = c
	}
	return c
}

// planned is one action for an object.
type planned struct {
	*entry
	plan.Action
	awaited bool // of a send: see isAwaited
}

// planner finds out what is to be done for the objects of the inventory. Only the goroutine of Run calls its methods.
// latest and missed are safe for concurrent use.
type planner struct {
	*shared
	sender *sender
	latest latest
	missed recent // coded objects with a shard that readers got from no holder, by the manifest
	left   bool   // the tick had no room for what objects at rest have to do
}

// plan asks for the plan of each object, in random order, until there is enough to do for one tick. A whole tick
// counts them too: that costs more than most plans. Ticks in between come many times a second: one that was asked for
// because something happened plans only the objects that it happened to.
func (pl *planner) plan(whole bool) todo {
	v, now, draining := pl.deps.View(), pl.deps.Now(), pl.deps.Draining()
	do := todo{calls: map[plan.ID]*calls{}}
	if self, ok := v.Member(pl.deps.Self); !draining.IsZero() && ok && !self.Draining {
		do.awaited = true // the offer that says so follows within a second
	}
	pl.sender.jobs.full.Store(false)
	pl.inv.mu.Lock()
	tight := len(pl.inv.active) > pl.inv.activeLimit/2
	do.all, pl.inv.all = whole || pl.inv.all, false
	var sum Sum
	var settled []*entry
	for e := range pl.inv.toPlan(do.all) { //lockcheck:computes it reads a map
		if do.n >= maxCalls {
			pl.inv.all = pl.inv.all || do.all
			if !whole {
				break
			}
		} else {
			delete(pl.inv.changed, e)
			if pl.planActive(e, v, now, draining, whole, &do) && (whole || tight) && pl.inv.rests(e, v, now) {
				settled = append(settled, e)
			}
		}
		if whole {
			sum.add(e.count(v, pl.p, now))
		}
	}
	pl.inv.mu.Unlock()
	if whole || pl.left {
		sum.add(pl.planPages(v, now, draining, whole, &do))
	}
	moving := pl.sender.jobs.moving.Load()
	pl.inv.mu.Lock()
	pl.inv.settle(settled, v, now)
	seen := pl.inv.passes > 0
	if do.all && len(do.sends) == 0 && draining.IsZero() && !moving {
		do.sends = pl.moves(v, now)
	}
	pl.inv.mu.Unlock()
	if whole {
		do.change = pl.latest.set(sum, v, seen)
	}
	if do.n >= maxCalls {
		pl.wakeUp() // there may be more
	}
	do.awaited = do.awaited || tight
	return do
}

// planActive plans an active object, and reports whether there is nothing to do for it. The caller holds inv.mu.
func (pl *planner) planActive(e *entry, v *plan.View, now, draining time.Time, whole bool, do *todo) bool {
	if !e.Here {
		pl.plannedFor(e, e.At(v, pl.p, now).Plan(), false, do)
		return false
	}
	e.Awaited = e.isAwaited(pl.deps.Self, pl.inv.begun)
	if whole && !draining.IsZero() {
		e.ProveSince(pl.p.Floor(draining), now)
	}
	actions := e.At(v, pl.p, now).Plan()
	e.placed = e.placed || e.Met()
	e.Sure = e.Sure || e.Met() && e.ProvedSince(pl.inv.started())
	do.awaited = do.awaited || e.Awaited && !e.placed && now.Sub(e.asked(pl.deps.Self)) < awaitedFor
	do.awaited = do.awaited || !draining.IsZero() && e.Wanted() > 0 && !e.Met()
	pl.plannedFor(e, actions, e.Awaited, do)
	return len(actions) == 0
}

// plannedFor adds the actions that were planned for an object.
func (pl *planner) plannedFor(e *entry, actions []plan.Action, awaited bool, do *todo) {
	do.n += len(actions)
	for _, a := range actions {
		switch a.Kind {
		case plan.Challenge:
			do.at(a.To).challenge(e.Root, awaited)
		case plan.Tell:
			do.at(a.To).tells = append(do.at(a.To).tells, planned{entry: e, Action: a})
		case plan.AskLease:
			do.at(a.To).leases = append(do.at(a.To).leases, planned{entry: e, Action: a})
		case plan.Drop:
			do.drops = append(do.drops, planned{entry: e, Action: a})
		case plan.Send:
			do.sends = append(do.sends, planned{e, a, awaited})
		}
	}
}

// moves returns sends of one job that bring copies where they should be. The caller holds inv.mu, and no copy is
// missing.
func (pl *planner) moves(v *plan.View, now time.Time) (sends []planned) {
	looked := 0
	more := func(e *entry) bool {
		if looked++; looked > maxMoves || len(sends) == plan.MaxBatch {
			return false
		}
		alone := e.Size > b3.GroupSize || e.coded != nil // in a separate job
		if !e.Here || len(sends) > 0 && alone {
			return true
		}
		only := plan.ID("")
		if len(sends) > 0 {
			only = sends[0].To
		}
		a, ok := e.At(v, pl.p, now).Move(only)
		if !ok {
			return true
		}
		sends = append(sends, planned{entry: e, Action: a})
		return !alone
	}
	pl.inv.somePlanned(v, now, more)
	for _, p := range sends {
		if pl.inv.active[p.Root] != p.entry {
			pl.inv.activate(p.entry)
		}
	}
	return sends
}

// planPages asks the planner about objects at rest, a page at a time. It skips a page in which no object has anything
// to do. A whole tick counts all of them.
func (pl *planner) planPages(v *plan.View, now time.Time, draining time.Time, whole bool, do *todo) (sum Sum) {
	first := rand.IntN(pages)
	left := false
	for i := range pages {
		if !whole && do.n >= maxCalls {
			left = true
			break
		}
		pl.inv.mu.Lock()
		more := pl.planPage(&pl.inv.pages[(first+i)%pages], v, now, draining, do, &sum)
		pl.inv.mu.Unlock()
		left = left || more
	}
	pl.left = left
	return sum
}

// planPage asks the planner about the objects of a page. It reports whether some wait for a later tick, as this one
// does enough. The caller holds inv.mu.
func (pl *planner) planPage(
	pg *page, v *plan.View, now, draining time.Time, do *todo, sum *Sum,
) (left bool) {
	same := pg.view == v.Version()
	if pg.Page == nil || pg.Len() == 0 {
		return false
	}
	if same && now.Before(pg.until) && draining.IsZero() {
		sum.add(pg.sum)
		return false
	}
	var rested *plan.View // with which they rest on
	if same {
		rested = v
	}
	pg.sum, pg.until = Sum{}, now.Add(pl.p.AuditPeriod)
	gone := map[b3.Root]bool{}
	var settled []*entry
	for k := range pg.All {
		if !known(k) {
			continue
		}
		e := pl.inv.unpack(k, rested, now)
		if !draining.IsZero() {
			e.ProveSince(pl.p.Floor(draining), now)
		}
		if until := e.Resting(v); now.Before(until) {
			pg.rests(e, until)
			continue
		}
		if do.n >= maxCalls || pl.inv.crowded() {
			left = true
			pg.until = now
			pg.sum.add(e.count(v, pl.p, now))
			continue
		}
		actions := e.At(v, pl.p, now).Plan()
		gone[e.Root] = true
		if len(actions) == 0 && pl.inv.rests(e, v, now) {
			settled = append(settled, e)
			pg.rests(e, e.Resting(v))
			continue
		}
		pl.inv.insert(e)
		pl.plannedFor(e, actions, false, do)
		sum.add(e.count(v, pl.p, now))
	}
	if len(gone) > 0 {
		pl.inv.resting -= len(gone)
		pg.RemoveFunc(func(k plan.Packed) bool { return gone[k.Root()] })
		for _, e := range settled {
			if !pl.inv.add(e, pl.p, now) {
				pl.inv.insert(e)
			}
		}
		pg.Clip()
		pg.change(now)
	}
	pg.view = v.Version()
	sum.add(pg.sum)
	return left
}
