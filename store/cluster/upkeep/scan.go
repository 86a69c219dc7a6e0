package upkeep

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
	"allium/store/cluster/plan"
	"allium/store/meta"
)

// scanner looks at the pins of this node, in passes that go on from tick to tick. Only the goroutine of Run calls its
// methods. removed and handing are safe for concurrent use.
type scanner struct {
	*shared
	finder  *finder
	dropper *dropper
	removed recent // numbers of removed targets of this node
	handing handing
	orphans map[b3.Root]orphan // at most maxOrphans
	scan    scan
}

// scan is a pass over the pins that goes on from tick to tick.
type scan struct {
	view   *plan.View // with which the latest part was looked at
	next   func() (meta.Pin, error, bool)
	end    func()
	failed bool // an object or a directory could not be read: the pass forgets nothing
	alone  int  // pins that ask for no copies
}

func (s *scan) stop() {
	if s.end != nil {
		s.end()
	}
	s.next, s.end = nil, nil
}

// targets yields the pins with targets and those below them, then the removed targets.
func (s *scanner) targets(ctx context.Context) iter.Seq2[meta.Pin, error] {
	return func(yield func(meta.Pin, error) bool) {
		for p, err := range s.deps.Store.Pins(ctx) {
			if err == nil && s.inv.keepsAlone(p) {
				s.scan.alone++
			}
			if err == nil && p.Label == meta.ClusterLabel && p.Target.Seq == 0 {
				s.noteOrphan(p.Root)
			}
			if err != nil || p.Target.Seq == 0 {
				if err != nil && !yield(p, err) {
					return
				}
				continue
			}
			if !yield(p, nil) {
				return
			}
			if !p.Recursive {
				continue
			}
			for root, err := range s.deps.Below(ctx, p.Root) {
				below := p
				if below.Root = root; err != nil {
					s.incomplete(p.Root, err)
					break
				}
				if !yield(below, nil) {
					return
				}
			}
		}
		for p, err := range s.deps.Store.RemovedTargets(ctx) {
			if !yield(p, err) {
				return
			}
		}
	}
}

// isWorthLooking reports whether objects that were left out, as too many were active, may be planned now. The pass over
// the pins then goes on in each tick.
func (s *scanner) isWorthLooking() bool {
	s.inv.mu.Lock()
	defer s.inv.mu.Unlock()
	return s.inv.leftOut() > 0 && s.inv.len() < s.inv.limit &&
		len(s.inv.active) < s.inv.activeLimit/2
}

// look looks at up to maxScan pins with targets. At the end of a pass it forgets the objects that no
// pin asked for any more.
func (s *scanner) look(ctx context.Context) error {
	if s.scan.next == nil {
		s.scan.next, s.scan.end = iter.Pull2(s.targets(ctx))
		s.scan.failed, s.scan.alone = false, 0
		s.inv.mu.Lock()
		s.inv.pass++
		s.inv.unplanned = 0
		s.inv.mu.Unlock()
		s.handing.begin(s.inv.pass)
	}
	s.scan.view = s.deps.View()
	for range maxScan {
		p, err, more := s.scan.next()
		if err == nil && more {
			if err := s.seen(ctx, p); err != nil {
				s.incomplete(p.Root, err)
			}
			err = ctx.Err()
		}
		if err != nil {
			s.scan.stop() // the pass begins anew
			return err
		}
		if !more {
			s.scan.stop()
			s.dropOrphans(ctx)
			given := s.inv.ended(s.scan.failed)
			s.finder.encodings.expire(s.deps.Now().Add(-2 * s.p.Tick))
			s.handing.end(&s.scan)
			for _, root := range given {
				if err := s.keepRemoval(ctx, root); err != nil {
					s.deps.Log.Warn("a removed target could not be kept", "root", root, "err", err)
				}
			}
			return nil
		}
	}
	return nil
}

// incomplete notes that the pass did not see all, and says so once.
func (s *scanner) incomplete(root b3.Root, err error) {
	if !s.scan.failed {
		s.deps.Log.Warn("an object with a target could not be looked at; there may be more", "root", root, "err", err)
	}
	s.scan.failed = true
}

// seen notes a pin with a target, or the record of a removed one.
func (s *scanner) seen(ctx context.Context, p meta.Pin) error {
	now := s.deps.Now()
	if p.Released {
		s.inv.released(p)
		age := now.Sub(time.UnixMilli(int64(p.Target.Seq)))
		// That this node dropped its copy says nothing about the target of the origin.
		if age > keepRemoved || meta.OfCluster(p.Label) {
			err := s.deps.Store.ForgetTarget(ctx, p.Root, p.Label)
			if status.Of(err) == status.NotFound {
				return nil
			}
			return err
		}
		s.removed.note(p.Root, p.Target.Seq, now)
		if age > 3*s.p.TrimWait && !s.inv.isPlanned(p.Root) {
			return nil // all were told, or will ask
		}
	}
	if !meta.OfCluster(p.Label) {
		var ok bool
		var err error
		if p, ok, err = s.finder.asCopies(ctx, p); err != nil || !ok {
			return err
		}
	}
	if rests, err := s.sawAtRest(ctx, p); err != nil || rests {
		return err
	}
	e, err := s.finder.entry(ctx, p.Root, p.Target.Data > 0)
	if err != nil || e == nil {
		return err
	}
	homeless := false // the target of another node has no place
	s.inv.with(e, func(now time.Time) {
		if e.pass != s.inv.pass {
			e.pass, e.own, e.adopted = s.inv.pass, meta.Target{}, meta.Target{}
		}
		switch origin := meta.Origin(p.Label); {
		case origin != "":
			id, err := peer.Decode(origin)
			switch {
			case err != nil:
			case plan.ID(id) == s.deps.Self:
				e.adopted = p.Target
			case e.takes(p.Target):
				e.At(s.scan.view, s.p, now).AskOf(plan.ID(id), p.Target)
				homeless = !slices.ContainsFunc(e.Asked(), func(a plan.Asked) bool { return a.Origin == plan.ID(id) })
			}
		case p.Label != meta.ClusterLabel:
			e.wants(p.Target)
			e.own.Seq = max(e.own.Seq, p.Target.Seq)
			e.raise(s.deps.Self, p.Target, now)
		}
	})
	if homeless && s.inv.passes > 0 && !s.deps.Now().Before(s.scan.view.Known) { // before, members are not known
		return s.dropStranger(ctx, p)
	}
	return nil
}

// keepRemoval records durably that this node no longer asks for copies of an object. It sets a pin for it, because an
// object below a directory has no record. The pin goes with the copies of the others.
func (s *scanner) keepRemoval(ctx context.Context, root b3.Root) error {
	s.inv.mu.Lock()
	var t meta.Target
	if e := s.inv.active[root]; e != nil {
		t = e.OwnTarget(s.deps.Self)
	}
	s.inv.mu.Unlock()
	if !t.Removed() {
		return nil
	}
	opt := store.PinOptions{Label: originLabel(s.deps.Self), Target: t}
	err := s.deps.Store.PinAll(ctx, []store.Pinning{{Root: root, Options: opt}})[0]
	if status.Of(err) == status.NotFound {
		return nil
	}
	return err
}

// sawAtRest notes a pin of an object that is at rest, and reports whether it is: the pin says what is known, and the
// object is stored. An object that was kept over a restart is taken if the pin is the only target that it knows of.
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

// dropStranger removes the target of an origin that is no member. The targets of members take its place.
func (s *scanner) dropStranger(ctx context.Context, p meta.Pin) error {
	id, err := peer.Decode(meta.Origin(p.Label))
	if err != nil {
		return err
	}
	if _, ok := s.deps.View().Member(plan.ID(id)); ok {
		return nil
	}
	return s.dropper.unpin(ctx, p.Root, []string{p.Label})
}
