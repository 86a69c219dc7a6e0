package upkeep

import (
	"context"

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

// call has callers ask the members. Each member is asked by one caller at a time, as it answers one
// challenge of this node at a time; one that is silent delays no other while there are callLimit
// callers at most. The callers end with ctx.
func (s *Service) call(ctx context.Context, all map[plan.ID]*calls) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for to, c := range all {
		if w := s.waiting[to]; w != nil {
			w.add(c)
		} else {
			s.waiting[to] = c
		}
	}
	for to := range s.waiting {
		if len(s.asked) >= callLimit {
			return
		}
		if !s.asked[to] {
			s.asked[to] = true
			s.callers.Go(func() { s.caller(ctx, to) })
		}
	}
}

// caller asks a member until nothing is left to ask, and then others that wait for a caller. When the member does
// not answer, it is not asked what waits then, which is planned again.
func (s *Service) caller(ctx context.Context, to plan.ID) {
	there := true
	for {
		ask := s.next(to)
		if ask == nil {
			var more bool
			if to, more = s.nextMember(to); !more {
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
func (s *Service) next(to plan.ID) ask {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.waiting[to]
	switch {
	case c == nil:
		return nil
	case len(c.awaited) > 0:
		part := take(&c.awaited)
		return func(ctx context.Context, to plan.ID, there bool) bool {
			return s.challenge(ctx, to, part, there, awaitedTime)
		}
	case len(c.tells) > 0:
		part := take(&c.tells)
		return func(ctx context.Context, to plan.ID, there bool) bool { return s.tell(ctx, to, part, there) }
	case len(c.leases) > 0:
		p := c.leases[0]
		c.leases = c.leases[1:]
		return func(ctx context.Context, _ plan.ID, there bool) bool { return there && s.lease(ctx, p) }
	case len(c.challenges) > 0:
		part := take(&c.challenges)
		return func(ctx context.Context, to plan.ID, there bool) bool {
			return s.challenge(ctx, to, part, there, challengeTime)
		}
	}
	delete(s.waiting, to)
	return nil
}

// take takes the first of a list, at most MaxBatch.
func take[T any](list *[]T) []T {
	n := min(len(*list), MaxBatch)
	part := (*list)[:n:n]
	*list = (*list)[n:]
	return part
}

// nextMember ends the calls of a member, and returns another one that waits for a caller.
func (s *Service) nextMember(done plan.ID) (to plan.ID, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.asked, done)
	for to := range s.waiting {
		if !s.asked[to] {
			s.asked[to] = true
			return to, true
		}
	}
	return "", false
}
