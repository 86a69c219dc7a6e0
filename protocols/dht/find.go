package dht

import (
	"context"
	"fmt"
	"iter"
	"sync"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
	"allium/protocols/kad"
	"allium/protocols/record"
)

// FindOptions are how to look for providers.
type FindOptions struct {
	Limit int    // providers that satisfy; 0 or less: as many as the closest peers name
	Fresh bool   // leave out the records that this node holds: only what peers answer now counts
	Trace *Trace // takes down how the lookup went; may be nil
}

// FindProviders looks for providers of root and yields them as they arrive,
// each peer once and never this node: first, unless o.Fresh, those that this node
// holds records of, then those that the closest peers name. The lookup ends with
// the loop, with ctx, Config.FindTimeout after the first question, when Limit is
// reached, or when the closest peers have been asked.
//
// An error is the last thing yielded, possibly after providers: no_bootstrap
// when no peer is known, timeout, hop_exceeded, canceled, not_ready, busy when
// too many lookups run. A lookup that asked all it should yields no error, even
// when it found nobody.
func (s *Service) FindProviders(ctx context.Context, root b3.Root, o FindOptions) iter.Seq2[record.Provider, error] {
	return func(yield func(record.Provider, error) bool) {
		f := &finding{s: s, root: root, limit: o.Limit, records: map[string]struct{}{}, peers: map[peer.ID]struct{}{s.self: {}}}
		var held []sealed
		if !o.Fresh {
			held = s.store.get(root, maxProviders, s.deps.Now())
		}
		for _, rec := range held {
			if p, ok := f.take(rec, ""); ok && !yield(p, nil) {
				return
			}
		}
		if f.full() {
			return
		}
		r, ctx, end, err := s.begin(ctx)
		if err != nil {
			yield(record.Provider{}, f.fail(err))
			return
		}
		found := make(chan record.Provider, maxProviders) // bound: as many as one answer holds
		var walk sync.WaitGroup
		walk.Go(func() {
			defer close(found)
			_, err = r.engine.run(ctx, search{
				op: opFind, key: root.Multihash(), cfg: s.cfg.find(), quorum: f.quorum(), ask: f.ask, trace: o.Trace,
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
				end() // the probes are cancelled, not waited for
				return
			}
		}
		if err != nil { // written before the channel was closed
			yield(record.Provider{}, f.fail(err))
		}
	}
}

// finding is one lookup of providers.
type finding struct {
	s     *Service
	root  b3.Root
	limit int

	mu      sync.Mutex
	records map[string]struct{} // envelopes seen: k peers give the same one
	peers   map[peer.ID]struct{}
}

func (f *finding) fail(err error) error {
	return fmt.Errorf("dht: find providers of %s: %w", f.root, err)
}

// quorum is what the network still has to bring.
func (f *finding) quorum() kad.Quorum {
	if f.limit <= 0 {
		return kad.Closest()
	}
	return kad.Providers(f.limit - (len(f.peers) - 1))
}

// ask is the lookup's question: who has it, and who is closer?
func (f *finding) ask(ctx context.Context, p peer.ID) (a answer, err error) {
	r, err := f.s.exchange.get(ctx, p, f.root)
	if err != nil {
		return a, err
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
		if prov, ok := f.take(rec, p); ok {
			a.providers = append(a.providers, prov)
		}
	}
	a.closer = r.closer()
	return a, nil
}

// first reports whether the envelope has not been seen before.
func (f *finding) first(envelope []byte) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, dup := f.records[string(envelope)]
	f.records[string(envelope)] = struct{}{}
	return !dup
}

// take turns a verified record into a provider, unless that peer has been found
// already or there are enough.
func (f *finding) take(rec sealed, via peer.ID) (p record.Provider, ok bool) {
	f.mu.Lock()
	_, dup := f.peers[rec.Provider]
	if ok = !dup && !f.fullLocked(); ok {
		f.peers[rec.Provider] = struct{}{}
	}
	f.mu.Unlock()
	if !ok {
		return p, false
	}
	info := peer.AddrInfo{ID: rec.Provider, Addrs: rec.addrs.Addrs}
	f.s.deps.Host.Peerstore().AddAddrs(info.ID, info.Addrs, addressTTL)
	return record.Provider{AddrInfo: info, Origin: record.OriginDHT, Seq: rec.Seq, NotAfter: rec.NotAfter, Via: via}, true
}

// full reports whether there are enough.
func (f *finding) full() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fullLocked()
}

// fullLocked does not count this node, which is in peers.
func (f *finding) fullLocked() bool { return f.limit > 0 && len(f.peers)-1 >= f.limit }
