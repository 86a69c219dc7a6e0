package dht

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/sync/errgroup"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// putParallel is how many peers are given a record at one time.
const putParallel = 10

// Provide signs a record for each root and gives it to the k peers closest to
// it, in a smaller network to all; it returns the number of acknowledgements
// over all roots. The record is also held here. A root that nobody took is an
// error, after the other roots have been tried: no_bootstrap when no peer is
// known, else what the peers answered. One root takes at most
// Config.PublishTimeout.
func (s *Service) Provide(ctx context.Context, roots ...b3.Root) (int, error) {
	acks := 0
	var errs []error
	for _, root := range roots {
		n, err := s.provide(ctx, root)
		acks += n
		if err != nil {
			errs = append(errs, err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return acks, errors.Join(errs...)
}

// provide publishes one root; n is the number of acknowledgements.
func (s *Service) provide(ctx context.Context, root b3.Root) (n int, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("dht: provide %s: %w", root, err)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, s.cfg.PublishTimeout)
	defer cancel()
	rec, err := s.recent(root, s.deps.Now())
	if err != nil {
		return 0, err
	}
	peers, _, err := s.closest(ctx, opPublish, s.cfg.publish(), root.Multihash())
	if err != nil {
		return 0, err
	}
	return s.putAll(ctx, peers, rec)
}

// putAll gives rec to peers. The error is the last peer's, and nil when anyone
// took it.
func (s *Service) putAll(ctx context.Context, peers []peer.ID, rec sealed) (int, error) {
	var acks atomic.Int64
	var last atomic.Pointer[error]
	var puts errgroup.Group
	puts.SetLimit(putParallel)
	for _, p := range peers {
		puts.Go(func() error {
			if err := s.exchange.put(ctx, p, rec); err == nil {
				acks.Add(1)
			} else {
				last.Store(&err)
			}
			return nil // one peer's refusal does not stop the others
		})
	}
	_ = puts.Wait() // no call returns an error
	if n := int(acks.Load()); n > 0 {
		return n, nil
	}
	if e := last.Load(); e != nil {
		return 0, fmt.Errorf("none of %d peers took the record: %w", len(peers), *e)
	}
	return 0, errNoPeers
}

// sign makes the record for root with this host's present addresses.
func (s *Service) sign(root b3.Root, now time.Time) (sealed, error) {
	addrs := s.deps.Host.Addrs()
	if len(addrs) == 0 {
		return sealed{}, status.Errorf(status.TransportDown, "this node has no address others could use: check listen.addrs and listen.relays")
	}
	rec := Record{Root: root, Provider: s.self, Seq: s.nextSeq(now), NotAfter: now.Add(s.cfg.RecordTTL).Truncate(time.Second)}
	return seal(s.deps.Key, rec, peer.PeerRecordFromAddrInfo(peer.AddrInfo{ID: s.self, Addrs: addrs}))
}

// put gives one peer our record for root: what the sweep sends. The record is
// signed once for all peers that it goes to at about the same time.
func (s *Service) put(ctx context.Context, p peer.ID, root b3.Root) error {
	rec, err := s.recent(root, s.deps.Now())
	if err != nil {
		return err
	}
	return s.exchange.put(ctx, p, rec)
}

// recent returns a record signed in the last few minutes. One that was signed
// while the clock was ahead would be refused as future-dated, and is not used.
func (s *Service) recent(root b3.Root, now time.Time) (sealed, error) {
	if s.deps.ClockWrong() {
		return sealed{}, errClock
	}
	if rec, ok := s.signed.Get(root); ok && rec.NotAfter.After(now.Add(s.cfg.RecordTTL-recordReuse)) && !rec.NotAfter.After(now.Add(s.cfg.RecordTTL+recordReuse)) {
		return rec, nil
	}
	rec, err := s.sign(root, now)
	if err != nil {
		return sealed{}, err
	}
	s.signed.Add(root, rec)
	_ = s.store.put(rec, now) // only room can be lacking here, and then the others have the record
	return rec, nil
}

// errClock is the refusal to sign by a clock that is wrong.
var errClock = status.Errorf(status.NotReady, "this machine's clock is wrong, so nothing is signed: set it")

// errNotHere is the answer of own for an object that this node has not got.
var errNotHere = status.Errorf(status.NotFound, "dht: this node has not got the object")

// own makes and keeps a record of this node for an object that it has.
// Signing costs half a verification and waits for the same place.
func (s *Service) own(ctx context.Context, root b3.Root) (sealed, error) {
	if !s.deps.Has(ctx, root) {
		return sealed{}, errNotHere
	}
	release, err := s.verify.gate.Acquire(ctx)
	if err != nil {
		return sealed{}, err
	}
	defer release()
	return s.recent(root, s.deps.Now())
}

// nextSeq is the time in milliseconds, and higher than every number before, so
// that it also rises over a restart.
func (s *Service) nextSeq(now time.Time) uint64 {
	for {
		last := s.seq.Load()
		next := max(uint64(now.UnixMilli()), last+1)
		if s.seq.CompareAndSwap(last, next) {
			return next
		}
	}
}
