package upkeep

import (
	"context"
	"errors"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/cluster/plan"
	"allium/store/cluster/repair"
	"allium/store/meta"
)

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

// challenge has a member prove its copies of objects within a time, unless it did not answer before, and reports
// whether it answered.
func (c *callers) challenge(
	ctx context.Context, to plan.ID, roots []b3.Root, there bool, limit time.Duration,
) bool {
	if !there {
		c.unasked(to, roots)
		return false
	}
	begun := c.deps.Now()
	ctx, cancel := context.WithTimeout(ctx, limit+time.Duration(len(roots))*proofTime)
	defer cancel()
	answers, err := c.deps.Prover.Challenge(ctx, peer.ID(to), roots)
	there = err == nil && len(answers) == len(roots)
	if !there {
		c.deps.Log.Debug("a member does not answer a challenge", "peer", peer.ID(to), "objects", len(roots), "err", err)
		answers = make([]plan.Response, len(roots)) // all busy
	}
	for i, a := range answers {
		if int(a.Answer) >= len(results) {
			answers[i].Answer = plan.Busy // no answer that the planner knows
		}
	}
	c.m.answered(answers, c.deps.Now().Sub(begun))
	c.answered(to, roots, answers)
	return there
}

// unasked notes that a member was not asked for objects.
func (c *callers) unasked(to plan.ID, roots []b3.Root) {
	c.inv.mu.Lock()
	defer c.inv.mu.Unlock()
	now := c.deps.Now()
	for _, root := range roots {
		if e := c.inv.find(root); e != nil {
			e.Unasked(to, now)
		}
	}
}

// answered notes how a member answered for objects. If copies are missing, the next tick follows soon.
func (c *callers) answered(to plan.ID, roots []b3.Root, answers []plan.Response) {
	now := c.deps.Now()
	var changed []b3.Root
	short := false
	c.inv.mu.Lock()
	for i, root := range roots {
		if e := c.inv.find(root); e != nil {
			if e.Answered(to, answers[i].Answer, answers[i].Piece, c.p, now) {
				changed = append(changed, root)
			}
			short = short || !e.Met() && (answers[i].Answer != plan.Busy || e.isAwaited(c.deps.Self, c.inv.begun))
		}
	}
	c.inv.mu.Unlock()
	if c.keeper.records != nil {
		c.keeper.records.News.Add(changed) // last: what is kept of them is at least as new
	}
	if short {
		c.wakeUp()
	}
}

// tell tells a member of objects, unless it did not answer before, and takes over what it knows of them. It
// reports whether the member answered.
func (c *callers) tell(ctx context.Context, to plan.ID, tells []planned, there bool) bool {
	ok := there && c.exchange(ctx, peer.ID(to), tells) == nil
	c.inv.mu.Lock()
	defer c.inv.mu.Unlock()
	for _, t := range tells {
		t.TellEnded(to, t.Version, ok)
		c.inv.touch(t.entry)
	}
	return ok
}

// exchange tells a member of objects and takes over what it answers.
func (c *callers) exchange(ctx context.Context, to peer.ID, about []planned) error {
	v := c.deps.View()
	told := make([]plan.Told, len(about))
	c.inv.mu.Lock()
	now := c.deps.Now()
	for i, p := range about {
		told[i] = p.Tell(v, c.p, now)
	}
	c.inv.mu.Unlock()
	calling, cancel := context.WithTimeout(ctx, tellTime+time.Duration(len(told))*keepTime)
	answer, err := c.deps.Prover.Tell(calling, to, told)
	cancel()
	if err != nil {
		return err
	}
	for i, t := range answer {
		if i >= len(told) || t.Root != told[i].Root {
			return status.Errorf(status.BadRequest, "%s answers with other objects than it was told of", to)
		}
	}
	return c.learner.learn(ctx, v, to, answer)
}

// lease asks the planner of an object for the lease of this node's copy, and reports whether it answered.
func (c *callers) lease(ctx context.Context, p planned) bool {
	calling, cancel := context.WithTimeout(ctx, tellTime)
	defer cancel()
	granted, err := c.deps.Prover.Lease(calling, peer.ID(p.To), p.Root)
	if err == nil && granted {
		c.inv.with(p.entry, func(now time.Time) { p.Leased(now) })
	}
	return err == nil
}

// grouped returns sends into jobs in order of priority: small objects for one member travel together.
func grouped(sends []planned) (list [][]planned) {
	type group struct {
		to       plan.ID
		priority plan.Priority
		awaited  bool
	}
	small := map[group]int{} // where in list small objects are added
	for _, p := range sends {
		key := group{p.To, p.Priority, p.awaited}
		i, ok := small[key]
		switch {
		case p.Size > b3.GroupSize, p.coded != nil:
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

// sender has copies sent by jobs of the queue of repairs.
type sender struct {
	*shared
	callers *callers
	jobs    jobs
}

// queue puts a job into the queue of repairs.
func (s *sender) queue(sends []planned) {
	job := repair.Job{
		// What is new has one copy, and still leaves the last places of the queue to repairs.
		Kind: sends[0].kind(), Root: sends[0].Root, Urgent: sends[0].Priority.Urgent() && !sends[0].awaited,
		Awaited: sends[0].awaited,
		Run: func(ctx context.Context, meter repair.Meter) error {
			ok, err := make([]bool, len(sends)), error(status.Errorf(status.Internal, "the send did not end"))
			begun := s.deps.Now()
			defer func() { s.sent(ctx, sends, ok, err, begun) }() // also after a panic
			if err = s.send(ctx, sends, ok, meter); ctx.Err() == nil {
				s.jobs.ended(err)
			}
			return err
		},
	}
	moves := job.Kind == repair.Move
	if moves {
		s.jobs.moving.Store(true)
	}
	if s.deps.Repairs.Queue(job) {
		return
	}
	s.inv.mu.Lock()
	for _, p := range sends {
		p.Skipped(p.To)
		s.inv.touch(p.entry)
	}
	s.inv.mu.Unlock()
	if moves {
		s.jobs.moving.Store(false)
	} else {
		s.jobs.full.Store(true) // last: a job that sees it has the next tick plan these objects
	}
}

// sent notes which copies of a job are there. The next tick follows soon: it has them proved, and
// plans what had no place in the queue. err is why others are not there.
func (s *sender) sent(ctx context.Context, sends []planned, ok []bool, err error, begun time.Time) {
	moves := sends[0].kind() == repair.Move
	if moves {
		s.jobs.moving.Store(false) // first: the tick that sees that it is to plan all objects may move others
	}
	now := s.deps.Now()
	again, bytes := false, int64(0)
	s.inv.mu.Lock()
	s.inv.all = s.inv.all || moves // the next tick looks for more to move
	for i, p := range sends {
		p.Sent(p.To, ok[i], s.p, now)
		s.inv.touch(p.entry)
		if ok[i] {
			again = true
			bytes += p.Size
			p.failing.note(nil, now)
		} else if ctx.Err() == nil {
			p.failing.note(err, now)
		}
	}
	s.inv.mu.Unlock()
	if bytes > 0 && !moves { // which are slower than what the estimate is for
		s.jobs.sent(bytes, now.Sub(begun), now)
	}
	if again || s.jobs.full.Load() {
		s.wakeUp()
	}
}

// send sends a member copies of objects, and tells it the targets, now that it can pin the objects for their origins.
// It tells it of them before as well, so that it may say that they were removed, unless somebody waits: what was just
// asked for nobody has removed. It notes in ok which ones are there.
func (s *sender) send(ctx context.Context, sends []planned, ok []bool, meter repair.Meter) error {
	to := peer.ID(sends[0].To)
	if !sends[0].awaited {
		if err := s.callers.exchange(ctx, to, sends); err != nil {
			return err
		}
	}
	var roots []b3.Root
	var at []int // of each root in sends
	s.inv.mu.Lock()
	for i, p := range sends {
		if p.Wanted() > 0 {
			roots, at = append(roots, p.Root), append(at, i)
		}
	}
	s.inv.mu.Unlock()
	if len(roots) == 0 {
		return nil // the targets were removed
	}
	var errs []error
	var err error
	if p := sends[0]; p.coded != nil { // which is a job of its own
		errs = []error{s.deps.Coder.Send(ctx, to, p.Root, p.coded, p.Piece, meter)}
	} else {
		errs, err = s.deps.Send(ctx, to, roots, meter)
	}
	if err == nil && len(errs) != len(roots) {
		err = status.Errorf(status.Internal, "%d results of %d sends", len(errs), len(roots))
	}
	if err != nil {
		return err
	}
	if err := s.callers.exchange(ctx, to, sends); err != nil {
		return err
	}
	for i, err := range errs {
		ok[at[i]] = err == nil
	}
	return errors.Join(errs...)
}

// dropper removes copies of this node.
type dropper struct{ *shared }

// drop removes the pins of the cluster from an object. What people pinned stays.
func (d *dropper) drop(ctx context.Context, e *entry) {
	d.inv.mu.Lock()
	if d.inv.active[e.Root] != e || e.Answer() == plan.Proved {
		d.inv.mu.Unlock()
		return // a member told of it since it was planned
	}
	e.dropping = true
	labels := []string{meta.ClusterLabel}
	for _, a := range e.Asked() {
		labels = append(labels, originLabel(a.Origin))
	}
	wanted := e.Wanted()
	d.inv.mu.Unlock()
	defer d.inv.with(e, func(time.Time) { e.dropping = false }) // it is still here
	if pinned, err := d.pinnedBy(ctx, e.Root, labels); err == nil && !pinned && e.coded == nil {
		d.inv.with(e, func(time.Time) { d.inv.forget(e) }) // it is this node's own
		return
	}
	err := d.trim(ctx, e.Root, func() error {
		return errors.Join(d.unpin(ctx, e.Root, labels), d.unpinPieces(ctx, e))
	})
	if err != nil {
		if ctx.Err() == nil {
			d.deps.Log.Warn("a copy that nobody needs could not be dropped", "root", e.Root, "err", err)
		}
		return
	}
	d.inv.with(e, func(time.Time) { d.inv.forget(e) })
	d.deps.Log.Info("dropped a copy that nobody needs", "root", e.Root, "copies_wanted", wanted)
}

// pinnedBy reports whether an object has a pin with one of the labels.
func (d *dropper) pinnedBy(ctx context.Context, root b3.Root, labels []string) (bool, error) {
	for _, label := range labels {
		if has, err := d.deps.Store.HasPin(ctx, root, label); err != nil || has {
			return has, err
		}
	}
	return false, nil
}

// unpin removes pins of an object that are there.
func (d *dropper) unpin(ctx context.Context, root b3.Root, labels []string) error {
	for _, label := range labels {
		if err := d.deps.Store.Unpin(ctx, root, label); err != nil && status.Of(err) != status.NotFound {
			return err
		}
	}
	return nil
}

func originLabel(id plan.ID) string { return meta.OriginLabel(peer.ID(id).String()) }
