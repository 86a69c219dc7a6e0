package upkeep

import (
	"context"
	"time"

	"allium/internal/jitter"
	"allium/protocols/b3"
	"allium/protocols/erasure"
	"allium/store/cluster/plan"
	"allium/store/cluster/upkeep/proofs"
	"allium/store/meta"
)

// Service plans the copies of this node's objects. Its methods are safe for concurrent use.
//
// The inventory holds what is known of the objects, and the others work on it. The scanner finds what pins ask for, and
// the planner what is to be done. Callers ask members. The sender and the dropper have copies sent and removed.
// Each lock is of one of them, and none is taken while another one is held.
type Service struct {
	*shared
	*inventory
	*learner
	*finder
	*reports
	scanner *scanner
	planner *planner
	callers *callers
	sender  *sender
	dropper *dropper
	keeper  *keeper
}

// shared holds what all parts of a Service use.
type shared struct {
	deps Deps
	p    plan.Params
	m    metrics
	inv  *inventory
	wake chan struct{} // bound: 1; asks for a tick
}

// wakeUp has the next tick follow soon.
func (s *shared) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// entry is an object that has a target.
type entry struct {
	*plan.Object
	here    bool        // it is stored whole, as of the latest look
	pass    uint64      // the latest pass that saw it
	told    uint64      // the pass in which a member told of it last
	own     meta.Target // what the pins of this node ask for, as far as the pass has seen
	adopted meta.Target // what this node once asked for, as others say
	placed  bool        // its targets were met once since the node started
	sure    bool        // and the copies were all proved since the node started
	failing failing     // its sends
	// dropping says that its pins are being removed. Nothing that a member tells is taken over meanwhile.
	dropping bool
	// unkept is not 0 while targets that members told may not be durable here: the number of the latest such call.
	unkept uint64

	coded    *erasure.Manifest // of a coding manifest; nil: whole copies are kept
	released uint64            // number of the removed target of the coded object, as far as the pass has seen
}

// asked returns when this node set its target.
func (e *entry) asked(self plan.ID) time.Time {
	return time.UnixMilli(int64(e.OwnTarget(self).Seq))
}

// isAwaited reports whether the sends of e are no repairs, but what somebody waits for who set a target on
// this node: they do not keep to the rate of repairs.
func (e *entry) isAwaited(self plan.ID, begun uint64) bool {
	return !e.placed && e.OwnTarget(self).Seq >= begun
}

// New returns a Service that knows no object.
func New(p plan.Params, d Deps) *Service {
	d.Env.SetDefaults()
	inv := newInventory(terms{self: d.Self, p: p, now: d.Now, begun: uint64(d.Now().UnixMilli())})
	parts := &shared{deps: d, p: p, inv: inv, wake: make(chan struct{}, 1)} // bound: 1, a second one adds nothing
	f := &finder{shared: parts, encodings: encodings{all: map[coding]*attempt{}}}
	drops := &dropper{parts}
	scan := &scanner{
		shared: parts, finder: f, dropper: drops,
		removed: removals{seqs: map[b3.Root]uint64{}}, orphans: map[b3.Root]orphan{},
	}
	learn := &learner{shared: parts, finder: f, removed: &scan.removed}
	keep := &keeper{shared: parts}
	if d.Records != nil {
		keep.records = proofs.New(d.Records, d.Log)
	}
	call := &callers{
		shared: parts, learner: learn, keeper: keep,
		waiting: map[plan.ID]*calls{}, asked: map[plan.ID]bool{},
	}
	send := &sender{shared: parts, callers: call}
	pl := &planner{shared: parts, sender: send, missed: missed{at: map[b3.Root]time.Time{}}}
	parts.m = newMetrics(d.Metrics, inv, &pl.latest)
	return &Service{
		shared: parts, inventory: inv, learner: learn, finder: f, scanner: scan, planner: pl, callers: call,
		sender: send, dropper: drops, keeper: keep,
		reports: &reports{shared: parts, finder: f, scanner: scan, planner: pl, sender: send},
	}
}

// Run plans every Params.Tick until ctx ends, and soon after something was pinned or a queue has room
// again.
func (s *Service) Run(ctx context.Context, ready func()) error {
	ready()
	s.keeper.load(ctx)
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepAtEnd)
		defer cancel()
		s.keeper.keepNews(ctx) // first: it replaces older news if there is no time for all pages
		s.keeper.keepProofs(ctx, pages)
	}()
	defer s.scanner.scan.stop()
	defer s.callers.running.Wait()
	ticks := 0                                             // whole ones since proofs were kept
	timer := time.NewTimer(jitter.Spread(s.p.Tick / soon)) // members are told busy until it has seen its pins
	defer timer.Stop()
	var next time.Time // for which the timer is set
	keep := time.NewTicker(keepEvery)
	defer keep.Stop()
	took := time.Duration(0) // the latest tick
	for looked := (time.Time{}); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-keep.C:
			s.keeper.keepNews(ctx)
			continue
		case <-timer.C:
			s.inventory.mu.Lock()
			s.inventory.all = true
			s.inventory.mu.Unlock()
		case <-s.wake:
			if !jitter.Sleep(ctx, min(s.p.Tick/soon, max(wakeLeast, wakeTicks*took), wakeMost)) {
				return nil
			}
		}
		now := s.deps.Now()
		whole := now.Sub(looked) >= s.p.Tick*3/4 || now.Before(looked) || s.scanner.handing.hurry.Swap(false)
		if whole {
			looked = now
		}
		wait := s.p.Tick
		awaited, all := s.tick(ctx, whole)
		if awaited {
			wait /= awaitedTicks
		}
		took = s.deps.Now().Sub(now)
		wait = jitter.Spread(wait)
		if at := now.Add(wait); all || at.Before(next) {
			next = at
			timer.Reset(wait)
		}
		if whole {
			ticks++
		}
		if ticks >= keptTicks {
			s.keeper.keepProofs(ctx, keptAtOnce)
			ticks = 0
		}
	}
}

// tick looks at pins that were just set and, if it is a whole one, at others; plans; and acts. It reports whether
// somebody waits for copies that are missing, or that this node hands over, and whether it planned all active objects.
func (s *Service) tick(ctx context.Context, whole bool) (awaited, all bool) {
	s.finder.lookAtPinned(ctx)
	if whole || s.scanner.isWorthLooking() {
		if err := s.scanner.look(ctx); err != nil {
			if ctx.Err() == nil {
				s.deps.Log.Warn("the pins that ask for copies could not be listed", "err", err)
			}
			if s.inventory.passes == 0 { // nothing is known yet
				return false, true
			}
		}
	}
	do := s.planner.plan(whole)
	if whole {
		s.deps.Changed(do.change)
	}
	s.planner.order(ctx, do.sends)
	s.act(ctx, do)
	return do.awaited, do.all
}

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

// planner finds out what is to be done for the objects of the inventory. It is of the goroutine of Run, but for latest
// and missed.
type planner struct {
	*shared
	sender *sender
	latest latest
	missed missed
	left   bool // the tick had no room for what objects at rest have to do
}

// plan asks the planner about the objects, in random order, until there is enough to do for one tick. A whole tick
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

// planActive asks the planner about an active object, and reports whether there is nothing to do for it. The caller
// holds mu.
func (pl *planner) planActive(e *entry, v *plan.View, now, draining time.Time, whole bool, do *todo) bool {
	if !e.here {
		pl.plannedFor(e, e.Look(v, pl.p, now), false, do)
		return false
	}
	awaited := e.isAwaited(pl.deps.Self, pl.inv.begun)
	e.Await(awaited)
	if whole && !draining.IsZero() {
		e.ProveSince(pl.p.Floor(draining), now)
	}
	actions := e.Plan(v, pl.p, now)
	e.placed = e.placed || e.Met()
	e.sure = e.sure || e.Met() && e.ProvedSince(pl.inv.started())
	do.awaited = do.awaited || awaited && !e.placed && now.Sub(e.asked(pl.deps.Self)) < awaitedFor
	do.awaited = do.awaited || !draining.IsZero() && e.Wanted() > 0 && !e.Met()
	pl.plannedFor(e, actions, awaited, do)
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

// moves returns sends of one job that bring copies where they should be. The caller holds mu, and no copy is missing.
func (pl *planner) moves(v *plan.View, now time.Time) (sends []planned) {
	looked := 0
	more := func(e *entry) bool {
		if looked++; looked > maxMoves || len(sends) == MaxBatch {
			return false
		}
		alone := e.Size > b3.GroupSize || e.coded != nil // in a job of its own
		if !e.here || len(sends) > 0 && alone {
			return true
		}
		only := plan.ID("")
		if len(sends) > 0 {
			only = sends[0].To
		}
		a, ok := e.Move(v, pl.p, only, now)
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
