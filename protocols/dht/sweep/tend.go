package sweep

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"github.com/ipfs/go-cid"
	"github.com/multiformats/go-multihash"

	"allium/protocols/b3"
)

// listing is a digest of a set of roots. Different sets have different digests, unless somebody
// constructs roots that collide.
type listing struct {
	done bool
	n    uint64
	sum  [b3.Size / 8]uint64
}

func (l *listing) add(root b3.Root) {
	l.n++
	for i := range l.sum {
		l.sum[i] += binary.BigEndian.Uint64(root[8*i:])
	}
}

// list reads what is announced and replaces the keys in the keystore if that has changed.
func (s *Sweep) list(ctx context.Context, r *running) error {
	added := s.added.Swap(false)
	if n := s.renewedTimes(); n != s.seen {
		s.seen, added = n, true
		s.due.again()
	}
	now := time.Now()
	seen := listing{done: true}
	s.due.begin()
	for root := range s.deps.Roots() {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.due.seen(root, now)
		seen.add(root)
	}
	s.due.end()
	if !added && seen == s.last {
		return nil
	}
	s.last = listing{}
	got, err := s.reset(ctx, r)
	if err != nil {
		return fmt.Errorf("list what is announced: %w", err)
	}
	s.last = got
	if lib := r.lib.Load(); lib != nil {
		if err := lib.RefreshSchedule(); err != nil {
			return fmt.Errorf("refresh the schedule: %w", err)
		}
	}
	return nil
}

// reset replaces the keys in the keystore with the roots of a new listing.
//
// The library must not be canceled while it asks its worker to begin: the worker would wait
// forever to answer, and Close for the worker (v0.42.2). reset cancels only after the library
// has taken a key.
func (s *Sweep) reset(ctx context.Context, r *running) (listing, error) {
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var feed sync.WaitGroup
	defer feed.Wait()
	defer cancel()
	got := listing{done: true}
	cids := make(chan cid.Cid)
	feed.Go(func() {
		for root := range s.deps.Roots() {
			select {
			case cids <- root.CID():
				got.add(root)
			case <-inner.Done(): // the keystore failed
				return
			}
			if ctx.Err() != nil {
				cancel() // do not close cids: the listing is incomplete
				return
			}
		}
		close(cids)
	})
	if err := r.keys.ResetCids(inner, cids); err != nil {
		return listing{}, err
	}
	feed.Wait()
	return got, nil
}

// tend lists again every hour and when the datastore was replaced, and publishes due cells that
// the library left out. It runs until ctx ends.
func (s *Sweep) tend(ctx context.Context, r *running) {
	list, heal := time.NewTicker(listEvery), time.NewTicker(healEvery)
	defer list.Stop()
	defer heal.Stop()
	renew := time.NewTicker(renewEvery)
	defer renew.Stop()
	for failing := false; ; {
		var err error
		select {
		case <-ctx.Done():
			return
		case <-list.C:
			err = s.list(ctx, r)
		case <-renew.C:
			if s.renewedTimes() != s.seen || !s.last.done {
				err = s.list(ctx, r)
			}
		case <-heal.C:
			err = s.heal(ctx, r)
		}
		if err != nil && !failing && ctx.Err() == nil {
			s.log.Warn("the sweep continues with the objects it knows", "error", err)
		}
		failing = err != nil
	}
}

// heal publishes cells that are due although the library has nothing left to do. The library
// forgets a region in some cases: if one of two keys in it stands for both, if the region was
// retried together with others that failed, or if the history it resumed from is not this
// node's.
func (s *Sweep) heal(ctx context.Context, r *running) error {
	late := s.due.late(time.Now().Add(-healAfter))
	if len(late) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, healEvery)
	defer cancel()
	lib := r.lib.Load()
	st, err := lib.Stats(ctx)
	if err != nil {
		return fmt.Errorf("read the sweep's statistics: %w", err)
	}
	if st.Connectivity.Status != "online" || st.Queues.PendingRegionReprovides > 0 {
		return nil // the library is working on it, or offline
	}
	left := maxHeal - int(st.Queues.PendingKeyProvides)
	var again []multihash.Multihash
	for _, c := range late {
		if len(again) >= left {
			break
		}
		keys, err := inCell(ctx, r.keys.Get, c)
		if err != nil {
			return fmt.Errorf("read a cell: %w", err)
		}
		if len(keys) == 0 {
			s.due.clear(c) // the keystore was replaced meanwhile
		}
		again = append(again, keys...)
	}
	if len(again) == 0 {
		return nil
	}
	s.log.Debug("publishing again what nobody has acknowledged", "roots", len(again))
	return lib.ProvideOnce(again...)
}

// inCell reads the keys of a cell. K is the library's type for a string of bits.
func inCell[K ~string](
	ctx context.Context, get func(context.Context, K) ([]multihash.Multihash, error), c cellID,
) ([]multihash.Multihash, error) {
	return get(ctx, K(c.prefix()))
}

// watch stores the due times every minute. It warns once when the sweep falls behind, and again
// only after it has caught up.
func (s *Sweep) watch(ctx context.Context, r *running) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for late := false; ; {
		lag := s.Lag()
		switch {
		case lag > lateWarn && !late:
			late = true
			s.log.Warn("republishing is late: announced objects cannot be found once their records expire. "+
				"Check that this node has peers and an address others can reach; if it has, announce fewer objects "+
				"or give the sweep more workers", "lag", lag)
		case lag == 0 && late:
			late = false
			s.log.Info("republishing has caught up")
		}
		if err := s.save(ctx, r); err != nil && ctx.Err() == nil {
			s.log.Warn("cannot store the sweep's due times; a restart now would show a wrong lag", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
