package upkeep

import (
	"context"
	"time"

	"allium/internal/jitter"
	"allium/protocols/b3"
	"allium/store/cluster/plan"
	"allium/store/cluster/upkeep/proofs"
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

// New returns a Service that knows no object.
func New(p plan.Params, d Deps) *Service {
	d.Env.SetDefaults()
	inv := newInventory(terms{self: d.Self, p: p, now: d.Now, begun: uint64(d.Now().UnixMilli())})
	parts := &shared{deps: d, p: p, inv: inv, wake: make(chan struct{}, 1)} // bound: 1, a second one adds nothing
	f := &finder{shared: parts, encodings: encodings{all: map[coding]*attempt{}}}
	drops := &dropper{parts}
	scan := &scanner{
		shared: parts, finder: f, dropper: drops,
		removed: newRecent(maxActive, keepRemoved), orphans: map[b3.Root]orphan{},
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
	pl := &planner{shared: parts, sender: send, missed: newRecent(maxMissed, readFor)}
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
	took, rest := time.Duration(0), time.Duration(wakeTicks) // the latest tick, and how often that is waited
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
			if !jitter.Sleep(ctx, min(s.p.Tick/soon, max(wakeLeast, rest*took), wakeMost)) {
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
		if rest = wakeTicks; awaited {
			wait /= awaitedTicks
			rest = wakeSoon
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

// act begins what was planned: sends in the queue of repairs, calls by callers. It waits for none of
// them.
func (s *Service) act(ctx context.Context, do todo) {
	for _, sends := range grouped(do.sends) {
		s.sender.queue(sends)
	}
	s.callers.call(ctx, do.calls)
	for _, p := range do.drops {
		s.dropper.drop(ctx, p.entry)
	}
}
