package durability

import (
	"context"
	"slices"
	"sync"
	"time"

	"allium/internal/jitter"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/durability"
	"allium/store/meta"
)

// Service plans the copies of this node's objects. Its methods are safe for concurrent use.
type Service struct {
	deps Deps
	p    durability.Params
	m    metrics

	mu                 sync.Mutex
	limit              int                // maxObjects
	objects            map[b3.Root]*entry // at most limit
	removed            map[b3.Root]uint64 // numbers of removed targets of this node, at most limit
	pass               uint64             // number of the current pass over the pins
	passes             uint64             // passes that ended
	unplanned, skipped int                // objects for which there was no room in this pass, and in the one before

	scan scan // of the goroutine of Run
}

// entry is an object that has a target.
type entry struct {
	*durability.Object
	here    bool        // it is stored whole, as of the latest look
	pass    uint64      // the latest pass that saw it
	told    uint64      // the pass in which a member told of it last
	own     meta.Target // what the pins of this node ask for, as far as the pass has seen
	adopted meta.Target // what this node once asked for, as others say
}

// New returns a Service that has seen nothing.
func New(p durability.Params, d Deps) *Service {
	s := &Service{deps: d, p: p, limit: maxObjects, objects: map[b3.Root]*entry{}, removed: map[b3.Root]uint64{}}
	s.m = newMetrics(d.Metrics, s)
	return s
}

// Run plans every Params.Tick until ctx ends.
func (s *Service) Run(ctx context.Context, ready func()) error {
	ready()
	defer s.scan.stop()
	for jitter.Sleep(ctx, jitter.Spread(s.p.Tick)) {
		s.tick(ctx)
	}
	return nil
}

// tick looks at pins, plans, and acts.
func (s *Service) tick(ctx context.Context) {
	if err := s.look(ctx); err != nil {
		if ctx.Err() == nil {
			s.deps.Log.Warn("the pins that ask for copies could not be listed", "err", err)
		}
		if s.passes == 0 { // nothing is known yet
			return
		}
	}
	s.act(ctx, s.plan())
}

// todo is what a plan of all objects begins.
type todo struct {
	challenges map[durability.ID][]b3.Root
	tells      map[durability.ID][]planned
	leases     []planned
	drops      []planned
	sends      []planned
	n          int
}

// planned is one action for an object.
type planned struct {
	*entry
	durability.Action
}

// plan asks the planner about all objects, in random order, until there is enough to do for one tick.
func (s *Service) plan() todo {
	v, now := s.deps.View(), s.deps.Now()
	do := todo{challenges: map[durability.ID][]b3.Root{}, tells: map[durability.ID][]planned{}}
	s.mu.Lock()
	defer s.mu.Unlock()
	for root, e := range s.objects { // the order of a map is random
		if !e.here {
			continue
		}
		if do.n >= maxCalls {
			break
		}
		actions := e.Plan(v, s.p, now)
		do.n += len(actions)
		for _, a := range actions {
			switch a.Kind {
			case durability.Challenge:
				do.challenges[a.To] = append(do.challenges[a.To], root)
			case durability.Tell:
				do.tells[a.To] = append(do.tells[a.To], planned{e, a})
			case durability.AskLease:
				do.leases = append(do.leases, planned{e, a})
			case durability.Drop:
				do.drops = append(do.drops, planned{e, a})
			case durability.Send:
				do.sends = append(do.sends, planned{e, a})
			}
		}
	}
	slices.SortStableFunc(do.sends, func(a, b planned) int { return int(a.Priority) - int(b.Priority) })
	return do
}

// Size returns the size in bytes of an object that is planned, else not_found.
func (s *Service) Size(root b3.Root) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.objects[root]; e != nil {
		return e.Object.Size, nil
	}
	return 0, notPlanned(root)
}

func notPlanned(root b3.Root) error {
	return status.Errorf(status.NotFound, "%s is not planned here", root)
}

// with runs f under the lock if e is still the entry of its object.
func (s *Service) with(e *entry, f func(now time.Time)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.objects[e.Root] == e {
		f(s.deps.Now())
	}
}
