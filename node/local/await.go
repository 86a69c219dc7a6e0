package local

import (
	"context"
	"fmt"
	"time"

	"allium/gateway/api"
	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/cluster/upkeep"
	"allium/store/meta"
)

const (
	// metPage is the maximum number of objects that are asked for at once.
	metPage = 1024
	// lookFirst and lookLast are the shortest and the longest wait between two looks at the copies of an object. Each
	// wait is twice as long as the one before, from lookFirst on when an object has its copies, and at least lookRest
	// times as long as the look took.
	lookFirst = 20 * time.Millisecond
	lookLast  = time.Second / 4
	lookRest  = 20
	// walkEvery is the longest time between two looks at the whole tree: others look at what had no copies then.
	walkEvery = 5 * time.Second
	// clusterWait is the time that members get to be found, or to come back, before a target is called out of reach.
	clusterWait = 4 * time.Second
	// heldAfter is the time without a copy on its way after which the wait ends for a reason that is known. stuckAfter
	// is the time without another copy after which it ends for any, and failingAfter that after which it ends although
	// some are on their way, if all sends of an object fail, or as new pins are still looked at.
	heldAfter    = 30 * time.Second
	stuckAfter   = 5 * time.Minute
	failingAfter = 30 * time.Minute
)

// AwaitCopies implements api.Node.
func (a *Node) AwaitCopies(
	ctx context.Context, key string, t *api.Target, progress api.ProgressFunc,
) (p api.Placed, err error) {
	if a.deps.Copies == nil {
		return api.Placed{}, errNoCluster
	}
	root, err := a.reader.Root(ctx, key)
	if err != nil {
		return api.Placed{}, err
	}
	target, err := a.wantedTarget(t)
	if err != nil {
		return api.Placed{}, err
	}
	w, wait := copiesWatch{root: root}, lookFirst
	var state upkeep.Progress
	for walked := (time.Time{}); ; {
		n, begun := len(state.Unmet), time.Now()
		state = a.deps.Copies.Progress(state.Unmet, target)
		took := time.Since(begun)
		p.Met += n - len(state.Unmet)
		if len(state.Unmet) == 0 || time.Since(walked) > walkEvery {
			walked = time.Now()
			if p, state, err = a.placed(ctx, root, target); err != nil || len(state.Unmet) == 0 {
				return p, err
			}
		}
		if progress != nil {
			progress(api.Progress{Objects: int64(p.Met), TotalObjects: int64(p.Objects)})
		}
		if err := w.look(&state, p, time.Now()); err != nil {
			return p, err
		}
		if len(state.Unmet) < n {
			wait = lookFirst
		}
		last := state.Unmet[len(state.Unmet)-1:]
		met := func() bool { return len(a.deps.Copies.Progress(last, target).Unmet) == 0 }
		if err := limits.SleepUntil(ctx, met, lookFirst, lookRest*took/5, max(wait, lookRest*took)); err != nil {
			return p, err
		}
		wait = min(2*wait, lookLast)
	}
}

// placed counts the objects of a tree, and says how far those without all their copies are, at most maxSized. An object
// that is not stored here does not count.
func (a *Node) placed(
	ctx context.Context, root b3.Root, t meta.Target,
) (p api.Placed, unmet upkeep.Progress, err error) {
	p.Root = root
	page := []b3.Root{root}
	var left []b3.Root
	count := func() error {
		has, err := a.st.Has(ctx, page)
		if err != nil {
			return err
		}
		here := make([]b3.Root, 0, len(page))
		for i, r := range page {
			if has[i] == b3.Complete {
				here = append(here, r)
			}
		}
		p.Objects += len(here)
		wait := a.deps.Copies.Progress(here, t).Unmet
		p.Met += len(here) - len(wait)
		left = append(left, wait[:min(len(wait), maxSized-len(left))]...)
		page = page[:0]
		return nil
	}
	for r, err := range a.st.Collector().Below(ctx, root) {
		if err != nil {
			return p, unmet, err
		}
		if page = append(page, r); len(page) == metPage {
			if err := count(); err != nil {
				return p, unmet, err
			}
		}
	}
	if err := count(); err != nil {
		return p, unmet, err
	}
	unmet = a.deps.Copies.Progress(left, t)
	p.Met += len(left) - len(unmet.Unmet)
	return p, unmet, nil
}

// copiesWatch decides when copies that somebody waits for do not come.
type copiesWatch struct {
	root        b3.Root
	met, copies int       // the most objects that had their copies, and the most copies of the others then
	moved       time.Time // when there were more last
	idle        time.Time // since when no copy is on its way; zero: one is
	blocked     time.Time // since when too few members can hold them; zero: enough can
}

// look returns why the wait ends although copies are missing, nil while they may come. The node goes on either way.
func (w *copiesWatch) look(s *upkeep.Progress, p api.Placed, now time.Time) error {
	if p.Met > w.met || p.Met == w.met && s.Copies > w.copies || w.moved.IsZero() {
		w.met, w.copies, w.moved = p.Met, s.Copies, now
	}
	if !s.Pending { // else nothing is known of that
		since(&w.idle, s.Coming == 0, now)
		since(&w.blocked, s.Stuck > 0, now)
	}
	still, idle := now.Sub(w.moved), !w.idle.IsZero() && min(now.Sub(w.idle), now.Sub(w.moved)) >= heldAfter
	why := "members do not prove those that they took"
	switch {
	case s.Pending && still < failingAfter:
		return nil
	case s.Pending:
		why = "this node still looks for what new pins keep"
	case s.Stuck > 0 && now.Sub(w.blocked) >= clusterWait:
		return w.outOfReach(s, p)
	case idle && s.Given > 0:
		return status.Errorf(status.Conflict,
			"%d of %d objects of %s have their copies, and its pin was removed or asks "+
				"for fewer by now", p.Met, p.Objects, w.root)
	case idle && s.Unplanned > 0:
		why = fmt.Sprintf(
			"%d objects with a target are more than one node plans: pin a part of them on another node of "+
				"the cluster", s.Unplanned)
	case idle && s.LastOnly:
		why =
			"more than a third of the members vanished together, so only last copies are sent, for an hour at most; " +
				"`allium durability --resume` ends that"
	case idle && s.CodeErr != nil:
		why = "its shards were not made: " + s.CodeErr.Error()
	case s.SendErr != nil && (idle && still >= stuckAfter || min(still, now.Sub(s.Failing)) >= failingAfter):
		why = "the latest copy was not sent: " + s.SendErr.Error()
	case !idle || still < stuckAfter:
		return nil
	}
	return status.Errorf(status.NotReady,
		"%d of %d objects of %s have their copies, and no more came in the last %s: %s."+
			" Nothing is lost, and the node goes on by itself", p.Met, p.Objects, w.root, still.Round(time.Second), why)
}

// since sets when to now where a condition begins to hold, and to zero while it does not.
func since(when *time.Time, holds bool, now time.Time) {
	if !holds {
		*when = time.Time{}
	} else if when.IsZero() {
		*when = now
	}
}

// outOfReach says that the members that are there cannot hold as many copies as are asked for.
func (w *copiesWatch) outOfReach(s *upkeep.Progress, p api.Placed) error {
	what, one := "copies", "one"
	if s.Coded {
		what = "shards"
	}
	if s.First != w.root {
		one += " of " + s.First.String()
	}
	return status.Errorf(status.NotReady, "%d of %d objects of %s have their %d %s, and this cluster has %d nodes "+
		"that can hold %s%s. Those so far stay, and the node goes on by itself; `allium durability` says how far it is",
		p.Met, p.Objects, w.root, s.Takers.Wanted, what, s.Takers.Members, one, reasonsOf(s.Takers.Refused))
}
