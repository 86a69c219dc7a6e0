package durability

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/sync/errgroup"

	"allium/node/repair"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/durability"
	"allium/store/meta"
)

// act begins what was planned. It returns when all members have answered, or after actTime: those that
// were not asked by then are busy. Sends go on in the queue of repairs.
func (s *Service) act(ctx context.Context, do todo) {
	for _, sends := range jobs(do.sends) {
		s.queue(sends)
	}
	calling, cancel := context.WithTimeout(ctx, actTime)
	defer cancel()
	var calls errgroup.Group
	calls.SetLimit(callLimit)
	call := func(f func()) { calls.Go(func() error { f(); return nil }) }
	for to, roots := range do.challenges {
		call(func() { // one after the other: a member answers one challenge of this node at a time
			for part := range slices.Chunk(roots, MaxBatch) {
				s.challenge(calling, to, part)
			}
		})
	}
	for to, tells := range do.tells {
		call(func() {
			for part := range slices.Chunk(tells, MaxBatch) {
				s.tell(calling, to, part)
			}
		})
	}
	for _, p := range do.leases {
		call(func() { s.lease(calling, p) })
	}
	_ = calls.Wait() // what failed is noted with each object, and planned again
	for _, p := range do.drops {
		s.drop(ctx, p.entry)
	}
}

// challenge has a member prove its copies of objects.
func (s *Service) challenge(ctx context.Context, to durability.ID, roots []b3.Root) {
	begun := s.deps.Now()
	ctx, cancel := context.WithTimeout(ctx, challengeTime)
	defer cancel()
	answers, err := s.deps.Prover.Challenge(ctx, peer.ID(to), roots)
	if err != nil || len(answers) != len(roots) {
		answers = make([]durability.Answer, len(roots)) // all busy
	}
	for i, a := range answers {
		if int(a) >= len(results) {
			answers[i] = durability.Busy // no answer that the planner knows
		}
	}
	s.m.answered(answers, s.deps.Now().Sub(begun))
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.deps.Now()
	for i, root := range roots {
		if e := s.objects[root]; e != nil {
			e.Answered(to, answers[i], s.p, now)
		}
	}
}

// tell tells a member of objects, and takes over what it knows of them.
func (s *Service) tell(ctx context.Context, to durability.ID, tells []planned) {
	err := s.exchange(ctx, peer.ID(to), tells)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range tells {
		t.TellEnded(to, t.Version, err == nil)
	}
}

// exchange tells a member of objects and takes over what it answers.
func (s *Service) exchange(ctx context.Context, to peer.ID, about []planned) error {
	v := s.deps.View()
	told := make([]durability.Told, len(about))
	s.mu.Lock()
	now := s.deps.Now()
	for i, p := range about {
		told[i] = p.Tell(v, s.p, now)
	}
	s.mu.Unlock()
	calling, cancel := context.WithTimeout(ctx, tellTime)
	answer, err := s.deps.Prover.Tell(calling, to, told)
	cancel()
	if err != nil {
		return err
	}
	for i, t := range answer {
		if i >= len(told) || t.Root != told[i].Root {
			return status.Errorf(status.BadRequest, "%s answers with other objects than it was told of", to)
		}
		s.mu.Lock()
		e := s.objects[t.Root]
		s.mu.Unlock()
		if e == nil {
			continue
		}
		if err := s.learn(ctx, v, e, t); err != nil {
			return err
		}
	}
	return nil
}

// lease asks the planner of an object for the lease of this node's copy.
func (s *Service) lease(ctx context.Context, p planned) {
	calling, cancel := context.WithTimeout(ctx, tellTime)
	defer cancel()
	granted, err := s.deps.Prover.Lease(calling, peer.ID(p.To), p.Root)
	if err == nil && granted {
		s.with(p.entry, func(now time.Time) { p.Leased(now) })
	}
}

// jobs groups sends into jobs in order of priority: small objects for one member travel together.
func jobs(sends []planned) (list [][]planned) {
	type group struct {
		to       durability.ID
		priority durability.Priority
	}
	small := map[group]int{} // where in list small objects are added
	for _, p := range sends {
		key := group{p.To, p.Priority}
		i, ok := small[key]
		switch {
		case p.Size > b3.GroupSize:
			list = append(list, []planned{p})
		case ok && len(list[i]) < MaxBatch:
			list[i] = append(list[i], p)
		default:
			small[key] = len(list)
			list = append(list, []planned{p})
		}
	}
	return list
}

// queue puts a job into the queue of repairs.
func (s *Service) queue(sends []planned) {
	job := repair.Job{
		Kind: repair.Replicate, Root: sends[0].Root, Urgent: sends[0].Priority.Urgent(),
		Run: func(ctx context.Context, wait repair.Wait) error {
			ok := make([]bool, len(sends))
			defer func() { // also after a panic
				s.mu.Lock()
				defer s.mu.Unlock()
				for i, p := range sends {
					p.Sent(p.To, ok[i], s.p, s.deps.Now())
				}
			}()
			return s.send(ctx, sends, ok, wait)
		},
	}
	if !s.deps.Repairs.Queue(job) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, p := range sends {
			p.Skipped(p.To)
		}
	}
}

// send tells a member the targets of objects, so that it may say that they were removed, sends it copies,
// and tells it again, now that it can pin the objects for their origins. It notes in ok which ones
// are there.
func (s *Service) send(ctx context.Context, sends []planned, ok []bool, wait repair.Wait) error {
	to := peer.ID(sends[0].To)
	if err := s.exchange(ctx, to, sends); err != nil {
		return err
	}
	var roots []b3.Root
	var at []int // of each root in sends
	s.mu.Lock()
	for i, p := range sends {
		if p.Wanted() > 0 {
			roots, at = append(roots, p.Root), append(at, i)
		}
	}
	s.mu.Unlock()
	if len(roots) == 0 {
		return nil // the targets were removed
	}
	errs, err := s.deps.Send(ctx, to, roots, wait)
	if err == nil && len(errs) != len(roots) {
		err = status.Errorf(status.Internal, "%d results of %d sends", len(errs), len(roots))
	}
	if err != nil {
		return err
	}
	if err := s.exchange(ctx, to, sends); err != nil {
		return err
	}
	for i, err := range errs {
		ok[at[i]] = err == nil
	}
	return errors.Join(errs...)
}

// drop removes the pins of the cluster from an object. What people pinned stays.
func (s *Service) drop(ctx context.Context, e *entry) {
	s.mu.Lock()
	labels := []string{meta.ClusterLabel}
	for _, a := range e.Asked() {
		labels = append(labels, originLabel(a.Origin))
	}
	wanted := e.Wanted()
	s.mu.Unlock()
	for _, label := range labels {
		err := s.deps.Store.Unpin(ctx, e.Root, label)
		if err != nil && status.Of(err) != status.NotFound {
			s.deps.Log.Warn("a copy that nobody needs could not be dropped", "root", e.Root, "err", err)
			return
		}
	}
	s.with(e, func(time.Time) { delete(s.objects, e.Root) })
	s.m.dropped.Inc()
	s.deps.Log.Info("dropped a copy that nobody needs", "root", e.Root, "copies_wanted", wanted)
}

func originLabel(id durability.ID) string { return meta.OriginLabel(peer.ID(id).String()) }
