package dht

import (
	"context"
	"iter"
	"sync"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
	"allium/protocols/dht/messages"
	"allium/protocols/dht/probes"
	"allium/protocols/kad"
	"allium/protocols/record"
)

// FindOptions controls a search for providers.
type FindOptions struct {
	Limit int           // providers after which the search ends; 0 or less: ask the closest peers for all
	Fresh bool          // ignore the records stored by this node; only what peers answer now counts
	Trace *probes.Trace // records the steps of the lookup; may be nil
}

// FindProviders searches for providers of root and yields them as they arrive. It yields
// each peer once and never this node. Unless o.Fresh is set, it first yields providers from
// the stored records, then those that the closest peers name. The lookup ends when the
// caller stops iterating, when ctx ends, Config.FindTimeout after the first request, when
// o.Limit is reached, or when the closest peers have been asked.
//
// An error is yielded last, possibly after providers: no_bootstrap (no peer is known),
// timeout, hop_exceeded, canceled, not_ready, or busy (too many lookups run). A lookup that
// completes yields no error, even if it found no provider.
func (s *Service) FindProviders(ctx context.Context, root b3.Root, o FindOptions) iter.Seq2[record.Provider, error] {
	return func(yield func(record.Provider, error) bool) {
		f := &providerSearch{
			s: s, root: root, limit: o.Limit,
			records: map[string]struct{}{}, peers: map[peer.ID]struct{}{s.self: {}},
		}
		var held []sourced
		if !o.Fresh {
			held = s.store.get(root, messages.MaxProviders, s.deps.Now())
		}
		for _, rec := range held {
			if p, ok := f.accept(rec.Sealed, ""); ok && !yield(p, nil) {
				return
			}
		}
		if f.enough() {
			return
		}
		r, ctx, end, err := s.lookups.begin(ctx)
		if err != nil {
			yield(record.Provider{}, err)
			return
		}
		found := make(chan record.Provider, messages.MaxProviders) // bound: the records of one response
		var walk sync.WaitGroup
		walk.Go(func() {
			defer close(found)
			_, err = r.engine.run(ctx, search{
				op: opFind, key: root.Multihash(), cfg: s.cfg.Load().findConfig(), quorum: f.quorum(),
				ask: f.ask, trace: o.Trace,
				found: func(ctx context.Context, p record.Provider) {
					select {
					case found <- p:
					case <-ctx.Done():
					}
				},
			})
		})
		defer end()
		defer walk.Wait()
		for p := range found {
			if !yield(p, nil) {
				end() // cancels the probes; walk ends without waiting for them
				return
			}
		}
		if err != nil { // the goroutine wrote err before it closed found
			yield(record.Provider{}, err)
		}
	}
}

// providerSearch is one search for providers.
type providerSearch struct {
	s     *Service
	root  b3.Root
	limit int

	mu      sync.Mutex           // lock: leaf
	records map[string]struct{}  // envelopes seen; k peers return the same one
	peers   map[peer.ID]struct{} // providers found, and this node
}

// quorum returns the quorum for the providers that the stored records did not name.
func (f *providerSearch) quorum() kad.Quorum {
	if f.limit <= 0 {
		return kad.Closest()
	}
	return kad.Providers(f.limit - (len(f.peers) - 1))
}

// ask sends p a get and verifies the records of the response.
func (f *providerSearch) ask(ctx context.Context, p peer.ID) (a answer, err error) {
	r, err := f.s.providers.get(ctx, p, f.root)
	if err != nil {
		return a, err
	}
	for _, w := range r.Providers {
		if !f.isNew(w.Envelope) {
			continue
		}
		rec, err := f.s.verify.open(ctx, w.Envelope, w.PeerRecord, f.root)
		if err != nil {
			f.s.m.refused(err)
			continue
		}
		if prov, ok := f.accept(rec, p); ok {
			a.providers = append(a.providers, prov)
		}
	}
	a.closer = r.CloserPeers()
	return a, nil
}

// isNew reports whether the envelope has not been seen before.
func (f *providerSearch) isNew(envelope []byte) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, dup := f.records[string(envelope)]
	f.records[string(envelope)] = struct{}{}
	return !dup
}

// accept returns the provider of a verified record. It returns false if that peer was
// found before, if it is ignored, or if there are enough providers.
func (f *providerSearch) accept(rec messages.Sealed, via peer.ID) (p record.Provider, ok bool) {
	if f.s.deps.IgnorePeer(rec.Provider) {
		return p, false
	}
	f.mu.Lock()
	_, dup := f.peers[rec.Provider]
	if ok = !dup && !f.enoughLocked(); ok {
		f.peers[rec.Provider] = struct{}{}
	}
	f.mu.Unlock()
	if !ok {
		return p, false
	}
	f.s.deps.Host.Peerstore().AddAddrs(rec.Provider, rec.Addrs.Addrs, addressTTL)
	return asProvider(rec, via), true
}

// enough reports whether limit providers have been found.
func (f *providerSearch) enough() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.enoughLocked()
}

// enoughLocked is enough for callers that hold mu. It does not count this node.
func (f *providerSearch) enoughLocked() bool { return f.limit > 0 && len(f.peers)-1 >= f.limit }
