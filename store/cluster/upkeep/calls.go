package upkeep

import (
	"context"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
	"allium/store/cluster/plan"
)

// calls holds the requests that are to be made of one member. None is planned again until it was made, which bounds
// their number by the actions of the objects.
type calls struct {
	awaited    []b3.Root // to be challenged, as somebody waits
	challenges []b3.Root
	tells      []planned
	leases     []planned
}

// challenge adds a challenge.
func (c *calls) challenge(root b3.Root, awaited bool) {
	if awaited {
		c.awaited = append(c.awaited, root)
	} else {
		c.challenges = append(c.challenges, root)
	}
}

// add adds the calls of o.
func (c *calls) add(o *calls) {
	c.awaited = append(c.awaited, o.awaited...)
	c.challenges = append(c.challenges, o.challenges...)
	c.tells = append(c.tells, o.tells...)
	c.leases = append(c.leases, o.leases...)
}

// callers ask the members: each is asked by one goroutine at a time, as it answers one challenge of this node at a
// time. One that is silent delays no other while there are callLimit goroutines at most. It is safe for concurrent use.
type callers struct {
	*shared
	learner *learner
	keeper  *keeper

	mu      sync.Mutex         // lock: leaf
	waiting map[plan.ID]*calls // of members that are not being asked
	asked   map[plan.ID]bool   // the members that are being asked, at most callLimit
	running sync.WaitGroup     // the goroutines of asked
}

// call has the members asked. The goroutines end with ctx.
func (c *callers) call(ctx context.Context, all map[plan.ID]*calls) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for to, more := range all {
		if w := c.waiting[to]; w != nil {
			w.add(more)
		} else {
			c.waiting[to] = more
		}
	}
	for to := range c.waiting {
		if len(c.asked) >= callLimit {
			return
		}
		if !c.asked[to] {
			c.asked[to] = true
			c.running.Go(func() { c.ask(ctx, to) })
		}
	}
}

// ask asks a member until nothing is left to ask, and then others that wait for a caller. When the member does
// not answer, it is not asked what waits then, which is planned again.
func (c *callers) ask(ctx context.Context, to plan.ID) {
	there := true
	for {
		ask := c.next(to)
		if ask == nil {
			var more bool
			if to, more = c.nextMember(to); !more {
				return
			}
			there = true
			continue
		}
		there = ask(ctx, to, there)
	}
}

// ask asks a member, unless it did not answer before, and reports whether it answered.
type ask func(ctx context.Context, to plan.ID, there bool) bool

// next returns what a member is asked next, nil if there is nothing: first what somebody waits for, and audits
// last.
func (c *callers) next(to plan.ID) ask {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.waiting[to]
	switch {
	case w == nil:
		return nil
	case len(w.awaited) > 0:
		part := take(&w.awaited)
		return func(ctx context.Context, to plan.ID, there bool) bool {
			return c.challenge(ctx, to, part, there, awaitedTime)
		}
	case len(w.tells) > 0:
		part := take(&w.tells)
		return func(ctx context.Context, to plan.ID, there bool) bool { return c.tell(ctx, to, part, there) }
	case len(w.leases) > 0:
		p := w.leases[0]
		w.leases = w.leases[1:]
		return func(ctx context.Context, _ plan.ID, there bool) bool { return there && c.lease(ctx, p) }
	case len(w.challenges) > 0:
		part := take(&w.challenges)
		return func(ctx context.Context, to plan.ID, there bool) bool {
			return c.challenge(ctx, to, part, there, challengeTime)
		}
	}
	delete(c.waiting, to)
	return nil
}

// take takes the first of a list, at most plan.MaxBatch.
func take[T any](list *[]T) []T {
	n := min(len(*list), plan.MaxBatch)
	part := (*list)[:n:n]
	*list = (*list)[n:]
	return part
}

// nextMember ends the calls of a member, and returns another one that waits for a caller.
func (c *callers) nextMember(done plan.ID) (to plan.ID, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.asked, done)
	for to := range c.waiting {
		if !c.asked[to] {
			c.asked[to] = true
			return to, true
		}
	}
	return "", false
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
	c.keeper.changed(changed) // last, so that the page that is written has these answers
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
		told[i] = p.At(v, c.p, now).Tell()
	}
	c.inv.mu.Unlock()
	calling, cancel := context.WithTimeout(ctx, tellTime+time.Duration(len(told))*keepTime)
	answer, err := c.deps.Prover.Tell(calling, to, told)
	cancel()
	if err != nil {
		return err
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
