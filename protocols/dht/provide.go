package dht

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/sync/errgroup"

	"allium/protocols/b3"
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
		n, err := s.announcer.provide(ctx, root)
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

// announcer publishes the records of this node.
type announcer struct {
	signer    *signer
	walk      *walker
	providers *providerClient
}

// provide publishes one root and returns the number of acknowledgements.
func (s *announcer) provide(ctx context.Context, root b3.Root) (n int, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("provide %s: %w", root, err)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, s.signer.cfg.Load().PublishTimeout)
	defer cancel()
	if _, err := s.signer.current(root, s.signer.deps.Now()); err != nil {
		return 0, err
	}
	peers, _, err := s.walk.closest(ctx, opPublish, s.signer.cfg.Load().publishConfig(), root.Multihash())
	if err != nil {
		return 0, err
	}
	return putAll(peers, func(p peer.ID) error { return s.put(ctx, p, root) })
}

// Withdraw drops this node's own record of root, which it provides no longer. Peers keep theirs until these expire.
func (s *Service) Withdraw(root b3.Root) {
	s.signer.signed.forget(root)
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

// put sends one peer this node's record for root. All peers that receive the record at
// about the same time receive the same signature.
func (s *announcer) put(ctx context.Context, p peer.ID, root b3.Root) error {
	rec, err := s.signer.current(root, s.signer.deps.Now())
	if err != nil {
		return err
	}
	return s.providers.put(ctx, p, rec)
}
