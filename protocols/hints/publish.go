package hints

import (
	"context"
	"slices"
	"time"

	"allium/internal/jitter"
	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// change is an object to announce or to withdraw.
type change struct {
	root b3.Root
	gone bool
}

// publishTimeout bounds the delivery of one announcement to gossip.
const publishTimeout = 5 * time.Second

// clockPoll is the interval at which a wrong clock is checked again.
const clockPoll = 5 * time.Second

// queue queues a change. It returns status.Busy if the queue is full and status.Draining after Run.
func (s *Service) tell(root b3.Root, gone bool) error {
	if s.ended.Load() {
		return status.Errorf(status.Draining, "announce: the node is stopping")
	}
	return s.queue.TryPut(change{root, gone})
}

// publish collects and announces queued changes until ctx ends.
func (s *Service) publish(ctx context.Context) {
	for {
		first, err := s.queue.Get(ctx)
		if err != nil {
			return
		}
		changes, ok := s.gather(ctx, first)
		if !ok || !s.awaitClock(ctx) {
			return
		}
		for _, a := range s.announcements(changes, s.deps.Now()) {
			s.send(ctx, a)
		}
	}
}

// awaitClock returns true once the clock is not known to be wrong, and false when ctx ends. Changes
// meanwhile wait in the queue.
func (s *Service) awaitClock(ctx context.Context) bool {
	for s.deps.ClockWrong() {
		if !jitter.Sleep(ctx, clockPoll) {
			return false
		}
	}
	return true
}

// gather waits for more changes. The last change of a root counts.
func (s *Service) gather(ctx context.Context, first change) (map[b3.Root]bool, bool) {
	changes := map[b3.Root]bool{first.root: first.gone}
	wait, cancel := context.WithTimeout(ctx, s.cfg.Linger)
	defer cancel()
	for len(changes) < maxRoots {
		c, err := s.queue.Get(wait)
		if err != nil {
			return changes, ctx.Err() == nil
		}
		changes[c.root] = c.gone
	}
	return changes, true
}

// announcements returns the unsigned announcements for the changes: one of all new objects, and one
// in place of each earlier announcement with a withdrawn object. The new ones go into a batch that
// has no object any more, if there is one: else every node would keep the empty ones until they expire.
func (s *Service) announcements(changes map[b3.Root]bool, now time.Time) []*announcement {
	var fresh []b3.Root
	replace := map[slot]*announcement{}
	for root, gone := range changes {
		mine := s.memory.of(s.self, root, now)
		if gone {
			for _, a := range mine {
				replace[a.slot] = a
			}
		} else if !slices.ContainsFunc(mine, func(a *announcement) bool {
			left := a.notAfter.Sub(now)
			return left > s.cfg.TTL/2 && left <= s.cfg.TTL // more was dated by a clock that was ahead: nobody takes it
		}) {
			fresh = append(fresh, root)
		}
	}
	end := now.Add(s.cfg.TTL).Truncate(time.Second)
	var out []*announcement
	for _, a := range replace {
		var left []b3.Root
		a.each(func(r b3.Root) {
			if !changes[r] {
				left = append(left, r)
			}
		})
		notAfter := a.notAfter
		if len(left) == 0 && len(fresh) > 0 {
			left, notAfter, fresh = fresh, end, nil
		}
		out = append(out, s.replacement(a, left, notAfter, now))
	}
	if len(fresh) == 0 {
		return out
	}
	if a := s.memory.emptied(s.self); a != nil {
		return append(out, s.replacement(a, fresh, end, now))
	}
	seq := s.nextSeq(now)
	return append(out, &announcement{slot: slot{s.self, seq}, seq: seq, notAfter: end, roots: sorted(fresh)})
}

// replacement returns an announcement in place of a.
func (s *Service) replacement(a *announcement, roots []b3.Root, notAfter, now time.Time) *announcement {
	// a may have been signed before a restart, while the clock was ahead.
	seq := max(s.nextSeq(now), a.seq+1)
	return &announcement{slot: a.slot, seq: seq, notAfter: notAfter, roots: sorted(roots)}
}

func sorted(roots []b3.Root) []byte {
	slices.SortFunc(roots, func(a, b b3.Root) int { return slices.Compare(a[:], b[:]) })
	out := make([]byte, 0, len(roots)*b3.Size)
	for _, r := range roots {
		out = append(out, r[:]...)
	}
	return out
}

// send signs an announcement, remembers it and passes it to gossip.
func (s *Service) send(ctx context.Context, a *announcement) {
	err := s.sign(a)
	if err == nil {
		_, err = s.memory.put(a, viaOwn, s.deps.Now())
	}
	if err != nil {
		s.m.refuse(viaOwn, err)
		s.log.Warn("cannot announce new objects by gossip; they are found through the DHT",
			"objects", a.count(), "err", err)
		return
	}
	s.m.accepted.WithLabelValues(string(viaOwn)).Inc()
	s.usage.Grown()
	s.sync.poke()
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	err = s.deps.Publish(ctx, a.envelope)
	s.m.published.WithLabelValues(status.Of(err).String()).Inc()
	if err != nil {
		s.log.Debug("an announcement was not published; it spreads by comparisons", "objects", a.count(), "err", err)
	}
}

// sign completes an announcement with the current addresses of this host.
func (s *Service) sign(a *announcement) error {
	a.addrs = s.deps.Host.Addrs()
	if len(a.addrs) == 0 {
		return status.Errorf(status.TransportDown,
			"this node has no address that others can use: check listen.addrs and listen.relays")
	}
	return a.seal(s.deps.Key)
}

// nextSeq returns the time in milliseconds, or one above the last number if that is higher, so that
// numbers also rise across a restart. Only the publisher calls it.
func (s *Service) nextSeq(now time.Time) uint64 {
	s.seq = max(uint64(now.UnixMilli()), s.seq+1)
	return s.seq
}

// queueSpec describes the queue of changes.
var queueSpec = limits.Spec{
	Name: "announce.publish", Path: "add, pin, unpin → announcements by gossip",
	Policy: "reject busy; found through the DHT only",
}
