package upkeep

import (
	"context"
	"time"

	"allium/protocols/b3"
	"allium/store/meta"
)

// The bounds of what is known of orphans.
const (
	maxOrphans = 1 << 12 // that are remembered
	maxDropped = 1 << 8  // that are dropped at the end of a pass
	// orphanWait is the least time for which nothing asks for an orphan before it is dropped, so that the sender of a
	// large object gets to its end.
	orphanWait = 10 * time.Minute
)

// orphan is an object that is pinned for the cluster, and that no target that is known asks for: its sender was gone
// before it told the target, or lost interest.
type orphan struct {
	since time.Time
	pass  uint64 // the latest pass that found it
}

// noteOrphan notes a pin of the cluster if no target asks for its object, and no coding has it as a piece.
func (s *scanner) noteOrphan(root b3.Root) {
	s.inv.mu.Lock()
	defer s.inv.mu.Unlock()
	if s.inv.passes == 0 { // not all targets are known yet
		return
	}
	if e := s.inv.peek(root); e != nil && len(e.Asked()) > 0 || s.inv.pieces[root] > 0 {
		return
	}
	o, known := s.orphans[root]
	if !known {
		if len(s.orphans) >= maxOrphans {
			return // a later pass finds it
		}
		o.since = s.deps.Now()
	}
	o.pass = s.inv.pass
	s.orphans[root] = o
}

// dropOrphans ends a pass: it removes the cluster's pin of objects that nothing asked for within the wait. While not
// all targets are known, or a coding is made, whose shards come before its manifest, it drops nothing.
func (s *scanner) dropOrphans(ctx context.Context) {
	for _, root := range s.oldOrphans() {
		unpin := func() error { return s.dropper.unpin(ctx, root, []string{meta.ClusterLabel}) }
		err := s.dropper.trim(ctx, root, unpin)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			s.deps.Log.Warn("a copy that nobody asks for could not be dropped", "root", root, "err", err)
		default:
			s.deps.Log.Info("dropped a copy that nobody asks for", "root", root)
		}
	}
}

// oldOrphans forgets the orphans that are none any more, and takes those that nothing asked for within the wait.
func (s *scanner) oldOrphans() (old []b3.Root) {
	if s.finder.encodings.busy() { // before the pieces are looked at: those of a coding that ends now are there
		return nil
	}
	s.inv.mu.Lock()
	defer s.inv.mu.Unlock()
	wait := max(s.p.TrimWait, orphanWait)
	for root, o := range s.orphans {
		switch {
		case s.scan.failed || s.inv.unplanned > 0:
		case o.pass != s.inv.pass, s.inv.pieces[root] > 0:
			delete(s.orphans, root)
		case s.deps.Now().Sub(o.since) >= wait && len(old) < maxDropped:
			old = append(old, root)
			delete(s.orphans, root)
		}
	}
	return old
}
