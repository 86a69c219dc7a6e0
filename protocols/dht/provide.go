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
	"allium/protocols/dht/messages"
	"allium/protocols/status"
)

// putParallel bounds the peers that a record is sent to at a time.
const putParallel = 10

// Provide signs a record for each root, stores it, and sends it to the k peers closest to
// the root; a smaller network's peers all receive it. It returns the number of
// acknowledgements over all roots. If no peer took a root, Provide tries the other roots
// and then returns an error: no_bootstrap if no peer is known, else what the peers
// answered. One root takes at most Config.PublishTimeout.
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

// provide publishes one root and returns the number of acknowledgements.
func (s *Service) provide(ctx context.Context, root b3.Root) (n int, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("provide %s: %w", root, err)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Load().PublishTimeout)
	defer cancel()
	if _, err := s.currentRecord(root, s.deps.Now()); err != nil {
		return 0, err
	}
	peers, _, err := s.closest(ctx, opPublish, s.cfg.Load().publishConfig(), root.Multihash())
	if err != nil {
		return 0, err
	}
	return putAll(peers, func(p peer.ID) error { return s.put(ctx, p, root) })
}

// Withdraw drops this node's own record of root, which it provides no longer. Peers keep theirs until these expire.
func (s *Service) Withdraw(root b3.Root) {
	s.signed.forget(root)
	removeRecord(s.store, root, s.self)
}

// putAll sends a record to peers and returns the number of acknowledgements. If no peer took
// the record, it returns the last error.
func putAll(peers []peer.ID, put func(peer.ID) error) (int, error) {
	var acks atomic.Int64
	var last atomic.Pointer[error]
	var puts errgroup.Group
	puts.SetLimit(putParallel)
	for _, p := range peers {
		puts.Go(func() error {
			if err := put(p); err == nil {
				acks.Add(1)
			} else {
				last.Store(&err)
			}
			return nil // the other peers still receive the record
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

// sign makes a record for root with the current addresses of this host.
func (s *Service) sign(root b3.Root, now time.Time) (messages.Sealed, error) {
	addrs := s.deps.Host.Addrs()
	if len(addrs) == 0 {
		return messages.Sealed{}, status.Errorf(status.TransportDown,
			"this node has no address that others can use: check listen.addrs and listen.relays")
	}
	notAfter := now.Add(s.cfg.Load().RecordTTL).Truncate(time.Second)
	rec := messages.Record{Root: root, Provider: s.self, Seq: s.nextSeq(now), NotAfter: notAfter}
	return messages.Seal(s.deps.Key, rec, peer.PeerRecordFromAddrInfo(peer.AddrInfo{ID: s.self, Addrs: addrs}))
}

// put sends one peer this node's record for root. All peers that receive the record at
// about the same time receive the same signature.
func (s *Service) put(ctx context.Context, p peer.ID, root b3.Root) error {
	rec, err := s.currentRecord(root, s.deps.Now())
	if err != nil {
		return err
	}
	return s.providers.put(ctx, p, rec)
}

// currentRecord returns a record for root that was signed within recordReuse, or signs a
// new one and stores it. It does not reuse a record that was signed while the clock was
// ahead, because peers would refuse it as future-dated.
func (s *Service) currentRecord(root b3.Root, now time.Time) (messages.Sealed, error) {
	if s.deps.ClockWrong() {
		return messages.Sealed{}, errClock
	}
	rec, fresh, err := s.signed.once(s, root, now)
	if fresh {
		_ = s.store.put(sourced{Sealed: rec}, now) // fails only if the store is full; peers get the record anyway
	}
	return rec, err
}

// errClock refuses to sign while the clock is wrong.
var errClock = status.Errorf(status.NotReady, "this machine's clock is wrong, so nothing is signed: set it")

// errNotStored reports that this node does not have an object.
var errNotStored = status.Errorf(status.NotFound, "this node does not have the object")

// ownRecord returns a record of this node for an object that it has, and stores it.
// Signing takes half as long as a verification and waits at the same gate.
func (s *Service) ownRecord(ctx context.Context, root b3.Root) (messages.Sealed, error) {
	if !s.deps.Has(ctx, root) {
		return messages.Sealed{}, errNotStored
	}
	release, err := s.verify.gate.Acquire(ctx)
	if err != nil {
		return messages.Sealed{}, err
	}
	defer release()
	return s.currentRecord(root, s.deps.Now())
}

// nextSeq returns a sequence number: the time in milliseconds, or one above the last
// number if that is higher. The numbers therefore also rise across a restart.
func (s *Service) nextSeq(now time.Time) uint64 {
	for {
		last := s.seq.Load()
		next := max(uint64(now.UnixMilli()), last+1)
		if s.seq.CompareAndSwap(last, next) {
			return next
		}
	}
}
