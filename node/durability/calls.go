package durability

import (
	"context"
	"slices"

	"allium/protocols/b3"
	"allium/store/durability"
)

// calls are what is to be asked of one member. What is here is not planned again until it was asked, which
// bounds it by the actions of the objects.
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
func (s *Service) call(ctx context.Context, all map[durability.ID]*calls) {
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

// caller asks a member, and then others that wait for a caller.
func (s *Service) caller(ctx context.Context, to durability.ID) {
	for more := true; more; to, more = s.next(to) {
		s.mu.Lock()
		c := s.waiting[to]
		delete(s.waiting, to)
		s.mu.Unlock()
		s.askMember(ctx, to, c)
	}
}

// next ends the calls of a member, and returns another one that waits for a caller.
func (s *Service) next(done durability.ID) (to durability.ID, ok bool) {
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

// askMember asks a member. When it does not answer, it is not asked the rest, which is planned again.
func (s *Service) askMember(ctx context.Context, to durability.ID, c *calls) {
	there := true
	for part := range slices.Chunk(c.awaited, MaxBatch) {
		there = s.challenge(ctx, to, part, there, awaitedTime)
	}
	for part := range slices.Chunk(c.challenges, MaxBatch) {
		there = s.challenge(ctx, to, part, there, challengeTime)
	}
	for part := range slices.Chunk(c.tells, MaxBatch) {
		there = s.tell(ctx, to, part, there)
	}
	for _, p := range c.leases {
		if there {
			there = s.lease(ctx, p)
		}
	}
}
