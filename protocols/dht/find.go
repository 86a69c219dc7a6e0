package dht

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// Provider is a peer that says, with a verified record, that it has an object.
type Provider struct {
	peer.AddrInfo           // as the provider signed them; already in the host's peerstore
	Seq           uint64    // of the record
	NotAfter      time.Time // end of the record's life
	Via           peer.ID   // the peer that held the record; empty: this node
}

// FindProviders looks for at most limit providers of root (0 or less: as many
// as a lookup finds) and yields them as they arrive, each peer once and never
// this node: first those that this node holds records of, then those that the
// closest peers name. The lookup ends with the loop, with ctx, Config.FindTimeout
// after the first question, or when the closest peers have been asked.
//
// An error is the last thing yielded, possibly after providers: no_bootstrap
// when no peer is known, timeout, hop_exceeded, canceled, not_ready. A lookup
// that asked all it should yields no error, even when it found nobody.
func (s *Service) FindProviders(ctx context.Context, root b3.Root, limit int) iter.Seq2[Provider, error] {
	return func(yield func(Provider, error) bool) {
		f := &finding{s: s, root: root, limit: limit, records: map[string]struct{}{}, peers: map[peer.ID]struct{}{s.self: {}}}
		f.found = make(chan Provider, maxProviders) // bound: as many as one answer holds
		for _, held := range s.store.get(root, maxProviders, time.Now()) {
			if p, last, ok := f.take(held, ""); ok && (!yield(p, nil) || last) {
				return
			}
		}

		r, ctx, end, err := s.begin(ctx, s.cfg.FindTimeout)
		if err != nil {
			yield(Provider{}, err)
			return
		}
		start := time.Now()
		var walk sync.WaitGroup
		var hops int
		walk.Go(func() {
			defer close(f.found)
			hops, err = r.lookup.find(ctx, root.Multihash(), f.ask)
		})
		defer func() {
			end() // the losers are cancelled, not waited for
			walk.Wait()
			s.m.lookupSeconds.WithLabelValues("find").Observe(time.Since(start).Seconds())
			s.m.lookupHops.WithLabelValues("find").Observe(float64(hops))
		}()
		for p := range f.found {
			if !yield(p, nil) {
				return
			}
		}
		if err != nil { // written before the channel was closed
			yield(Provider{}, findError(root, err))
		}
	}
}

func findError(root b3.Root, err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return status.Errorf(status.Timeout, "dht: find providers of %s: the lookup took too long: %w", root, err)
	}
	return fmt.Errorf("dht: find providers of %s: %w", root, err)
}

// finding is one lookup of providers.
type finding struct {
	s     *Service
	root  b3.Root
	limit int
	found chan Provider
	full  atomic.Bool

	mu      sync.Mutex
	records map[string]struct{} // envelopes seen: k peers give the same one
	peers   map[peer.ID]struct{}
}

// ask is the lookup's question: who has it, and who is closer?
func (f *finding) ask(ctx context.Context, p peer.ID) ([]peer.AddrInfo, bool, error) {
	r, err := f.s.exchange.get(ctx, p, f.root)
	if err != nil {
		return nil, false, err
	}
	for _, w := range r.Providers {
		if !f.first(w.Envelope) {
			continue
		}
		rec, err := f.s.verify.open(ctx, w.Envelope, w.PeerRecord, f.root)
		if err != nil {
			f.s.m.refused(err)
			continue
		}
		prov, last, ok := f.take(rec, p)
		if !ok {
			continue
		}
		select {
		case f.found <- prov:
		case <-ctx.Done():
			return nil, false, ctx.Err()
		}
		if last {
			f.full.Store(true)
		}
	}
	return r.closer(), f.full.Load(), nil
}

// first reports whether the envelope has not been seen before.
func (f *finding) first(envelope []byte) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, dup := f.records[string(envelope)]
	f.records[string(envelope)] = struct{}{}
	return !dup
}

// take turns a verified record into a provider unless that peer has been found
// already or limit has been reached; last says that it has been reached now.
func (f *finding) take(rec sealed, via peer.ID) (p Provider, last, ok bool) {
	f.mu.Lock()
	_, dup := f.peers[rec.Provider]
	found := len(f.peers) - 1 // without this node
	if dup || f.limit > 0 && found >= f.limit {
		f.mu.Unlock()
		return Provider{}, false, false
	}
	f.peers[rec.Provider] = struct{}{}
	last = f.limit > 0 && found+1 == f.limit
	f.mu.Unlock()

	info := peer.AddrInfo{ID: rec.Provider, Addrs: rec.addrs.Addrs}
	f.s.deps.Host.Peerstore().AddAddrs(info.ID, info.Addrs, addressTTL)
	return Provider{AddrInfo: info, Seq: rec.Seq, NotAfter: rec.NotAfter, Via: via}, last, true
}
