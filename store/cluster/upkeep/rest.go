package upkeep

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
	"allium/store/cluster/plan"
	"allium/store/meta"
)

// planPages asks the planner about objects at rest, a page at a time. Of a page in which none has anything to do, it
// looks at none. A whole tick counts all of them.
func (pl *planner) planPages(v *plan.View, now time.Time, draining time.Time, whole bool, do *todo) (sum Sum) {
	first := rand.IntN(pages)
	left := false
	for i := range pages {
		if !whole && do.n >= maxCalls {
			left = true
			break
		}
		pl.inv.mu.Lock()
		more := pl.planPage(&pl.inv.pages[(first+i)%pages], v, now, draining, do, &sum)
		pl.inv.mu.Unlock()
		left = left || more
	}
	pl.left = left
	return sum
}

// planPage asks the planner about the objects of a page. It reports whether some wait for a later tick, as this one
// does enough. The caller holds mu.
func (pl *planner) planPage(
	pg *page, v *plan.View, now, draining time.Time, do *todo, sum *Sum,
) (left bool) {
	same := pg.view == v.Version()
	if pg.Page == nil || pg.Len() == 0 {
		return false
	}
	if same && now.Before(pg.until) && draining.IsZero() {
		sum.add(pg.sum)
		return false
	}
	var rested *plan.View // with which they rest on
	if same {
		rested = v
	}
	pg.sum, pg.until = Sum{}, now.Add(pl.p.AuditPeriod)
	gone := map[b3.Root]bool{}
	var settled []*entry
	for k := range pg.All {
		if !known(k) {
			continue
		}
		e := pl.inv.unpack(k, rested, now)
		if !draining.IsZero() {
			e.ProveSince(pl.p.Floor(draining), now)
		}
		if until := e.Resting(v); now.Before(until) {
			pg.rests(e, until)
			continue
		}
		if do.n >= maxCalls || pl.inv.crowded() {
			left = true
			pg.until = now
			pg.sum.add(e.count(v, pl.p, now))
			continue
		}
		actions := e.Plan(v, pl.p, now)
		gone[e.Root] = true
		if len(actions) == 0 && pl.inv.rests(e, v, now) {
			settled = append(settled, e)
			pg.rests(e, e.Resting(v))
			continue
		}
		pl.inv.insert(e)
		pl.plannedFor(e, actions, false, do)
		sum.add(e.count(v, pl.p, now))
	}
	if len(gone) > 0 {
		pl.inv.resting -= len(gone)
		pg.RemoveFunc(func(k plan.Packed) bool { return gone[k.Root()] })
		for _, e := range settled {
			if !pl.inv.add(e, pl.p, now) {
				pl.inv.insert(e)
			}
		}
		pg.Clip()
		pg.change(now)
	}
	pg.view = v.Version()
	sum.add(pg.sum)
	return left
}

// sawAtRest notes a pin of an object that is at rest, and reports whether it is: the pin says what is known, and the
// object is stored. What was kept over a restart is taken if the pin is all that it knows of.
func (s *scanner) sawAtRest(ctx context.Context, p meta.Pin) (bool, error) {
	origin := s.deps.Self
	if meta.OfCluster(p.Label) {
		id, err := peer.Decode(meta.Origin(p.Label))
		if err != nil || plan.ID(id) == s.deps.Self {
			return false, nil // the caller looks at it
		}
		origin = plan.ID(id)
	}
	s.inv.mu.Lock()
	k, rests := s.inv.packed(p.Root)
	saw := rests && mark(*k.Mark()).saw(s.inv.pass)
	if rests {
		same, alone := k.Read(s.deps.Now()).Knows(origin, p.Target)
		rests = same && (alone || known(k))
	}
	s.inv.mu.Unlock()
	if !rests || saw {
		return rests, nil
	}
	info, err := s.deps.Store.Stat(ctx, p.Root)
	if err != nil || info.Corrupt {
		return false, nil // the caller asks again
	}
	s.inv.mu.Lock()
	defer s.inv.mu.Unlock()
	k, rests = s.inv.packed(p.Root)
	if rests {
		if !known(k) {
			s.inv.pages[pageOf(p.Root)].view = 0
		}
		told := s.inv.pass
		if !mark(*k.Mark()).told(s.inv.pass) {
			told-- // not the mark of a pass to come
		}
		*k.Mark() = byte(markOf(s.inv.pass, told))
	}
	return rests, nil
}
