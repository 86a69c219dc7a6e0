package upkeep

import (
	"context"
	"sync/atomic"
	"time"

	"allium/internal/jitter"
	"allium/protocols/b3"
	"allium/protocols/erasure"
	"allium/store/cluster/plan"
	"allium/store/cluster/upkeep/proofs"
	"allium/store/meta"
)

// Service plans the copies of this node's objects. Its methods are safe for concurrent use.
type Service struct {
	deps Deps
	p    plan.Params
	m    metrics

	*inventory
	learned   atomic.Uint64 // calls of learn
	wake      chan struct{} // bound: 1; asks for a tick
	missed    missed
	pinned    pinnedPins
	removed   removals
	handing   handing
	jobs      jobs
	encodings encodings
	latest    latest
	callers   callers
	scan      scan               // of the goroutine of Run
	orphans   map[b3.Root]orphan // at most maxOrphans; of the goroutine of Run
	left      bool               // the tick had no room for what objects at rest have to do; of the goroutine of Run

	records *proofs.Records // nil: nothing is kept; of the goroutine of Run, but for its News
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

// New returns a Service that has seen nothing.
func New(p plan.Params, d Deps) *Service {
	d.Env.SetDefaults()
	inv := newInventory(terms{self: d.Self, p: p, now: d.Now, begun: uint64(d.Now().UnixMilli())})
	s := &Service{
		deps: d, p: p, inventory: inv, removed: removals{seqs: map[b3.Root]uint64{}},
		orphans:   map[b3.Root]orphan{},
		encodings: encodings{all: map[coding]*attempt{}},
		missed:    missed{at: map[b3.Root]time.Time{}},
		wake:      make(chan struct{}, 1), // bound: 1, a second one adds nothing
	}
	s.callers = callers{asker: s, waiting: map[plan.ID]*calls{}, asked: map[plan.ID]bool{}}
	if d.Records != nil {
		s.records = proofs.New(d.Records, d.Log)
	}
	s.m = newMetrics(d.Metrics, s.inventory, &s.latest)
	return s
}

// Run plans every Params.Tick until ctx ends, and soon after something was pinned or a queue has room
// again.
func (s *Service) Run(ctx context.Context, ready func()) error {
	ready()
	s.load(ctx)
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepAtEnd)
		defer cancel()
		s.keepNews(ctx) // first: it replaces older news if there is no time for all pages
		s.keepProofs(ctx, pages)
	}()
	defer s.scan.stop()
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
			s.keepNews(ctx)
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
		whole := now.Sub(looked) >= s.p.Tick*3/4 || now.Before(looked) || s.handing.takeHurry()
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
			s.keepProofs(ctx, keptAtOnce)
			ticks = 0
		}
	}
}

func (s *Service) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// tick looks at pins that were just set and, if it is a whole one, at others; plans; and acts. It reports whether
// somebody waits for copies that are missing, or that this node hands over, and whether it planned all active objects.
func (s *Service) tick(ctx context.Context, whole bool) (awaited, all bool) {
	s.lookAtPinned(ctx)
	if whole || s.isWorthLooking() {
		if err := s.look(ctx); err != nil {
			if ctx.Err() == nil {
				s.deps.Log.Warn("the pins that ask for copies could not be listed", "err", err)
			}
			if s.inventory.passes == 0 { // nothing is known yet
				return false, true
			}
		}
	}
	do := s.plan(whole)
	if whole {
		s.deps.Changed(do.change)
	}
	s.order(ctx, do.sends)
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

// plan asks the planner about the objects, in random order, until there is enough to do for one tick. A whole tick
// counts them too: that costs more than most plans. Ticks in between come many times a second: one that was asked for
// because something happened plans only the objects that it happened to.
func (s *Service) plan(whole bool) todo {
	v, now, draining := s.deps.View(), s.deps.Now(), s.deps.Draining()
	do := todo{calls: map[plan.ID]*calls{}}
	if self, ok := v.Member(s.deps.Self); !draining.IsZero() && ok && !self.Draining {
		do.awaited = true // the offer that says so follows within a second
	}
	s.jobs.begin()
	s.inventory.mu.Lock()
	tight := len(s.inventory.active) > s.inventory.activeLimit/2
	do.all, s.inventory.all = whole || s.inventory.all, false
	var sum Sum
	var settled []*entry
	for e := range s.inventory.toPlan(do.all) { //lockcheck:computes it reads a map
		if do.n >= maxCalls {
			s.inventory.all = s.inventory.all || do.all
			if !whole {
				break
			}
		} else {
			delete(s.inventory.changed, e)
			if s.planActive(e, v, now, draining, whole, &do) && (whole || tight) && s.inventory.rests(e, v, now) {
				settled = append(settled, e)
			}
		}
		if whole {
			sum.add(e.count(v, s.p, now))
		}
	}
	s.inventory.mu.Unlock()
	if whole || s.left {
		sum.add(s.planPages(v, now, draining, whole, &do))
	}
	moving := s.jobs.isMoving()
	s.inventory.mu.Lock()
	s.inventory.settle(settled, v, now)
	seen := s.inventory.passes > 0
	if do.all && len(do.sends) == 0 && draining.IsZero() && !moving {
		do.sends = s.moves(v, now)
	}
	s.inventory.mu.Unlock()
	if whole {
		do.change = s.latest.set(sum, v, seen)
	}
	if do.n >= maxCalls {
		s.wakeUp() // there may be more
	}
	do.awaited = do.awaited || tight
	return do
}

// planActive asks the planner about an active object, and reports whether there is nothing to do for it. The caller
// holds mu.
func (s *Service) planActive(e *entry, v *plan.View, now, draining time.Time, whole bool, do *todo) bool {
	if !e.here {
		s.plannedFor(e, e.Look(v, s.p, now), false, do)
		return false
	}
	awaited := e.isAwaited(s.deps.Self, s.inventory.begun)
	e.Await(awaited)
	if whole && !draining.IsZero() {
		e.ProveSince(s.p.Floor(draining), now)
	}
	actions := e.Plan(v, s.p, now)
	e.placed = e.placed || e.Met()
	e.sure = e.sure || e.Met() && e.ProvedSince(s.inventory.started())
	do.awaited = do.awaited || awaited && !e.placed && now.Sub(e.asked(s.deps.Self)) < awaitedFor
	do.awaited = do.awaited || !draining.IsZero() && e.Wanted() > 0 && !e.Met()
	s.plannedFor(e, actions, awaited, do)
	return len(actions) == 0
}

// plannedFor adds the actions that were planned for an object.
func (s *Service) plannedFor(e *entry, actions []plan.Action, awaited bool, do *todo) {
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
func (s *Service) moves(v *plan.View, now time.Time) (sends []planned) {
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
		a, ok := e.Move(v, s.p, only, now)
		if !ok {
			return true
		}
		sends = append(sends, planned{entry: e, Action: a})
		return !alone
	}
	s.inventory.somePlanned(v, now, more)
	for _, p := range sends {
		if s.inventory.active[p.Root] != p.entry {
			s.inventory.activate(p.entry)
		}
	}
	return sends
}
