package dht

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
)

// providerStore holds verified records in RAM.
//
// Invariants: len(records of a key) ≤ perKey, records of one provider ≤
// perPeer, records in all ≤ total; of a provider and a key there is one record,
// the one with the highest seq; peers[p] exists while p has a record. A peer
// record is held once per provider, so all of a provider's records get the
// addresses of the newest. dirty, if there is one, has every slot that was
// written or dropped since it was last taken.
type providerStore struct {
	perKey, perPeer, total int

	mu    sync.Mutex
	dirty *dirtySet // nil: nothing is persisted
	keys  map[b3.Root][]held
	peers map[peer.ID]*heldPeer
	n     int
}

// held is one record without what its key and its provider's entry say.
type held struct {
	provider peer.ID
	seq      uint64
	notAfter time.Time
	envelope []byte
}

type heldPeer struct {
	n      int // records
	seq    uint64
	addrs  peer.PeerRecord
	signed []byte
}

func newProviderStore(perKey, perPeer, total int) *providerStore {
	return &providerStore{
		perKey: perKey, perPeer: perPeer, total: total,
		keys:  make(map[b3.Root][]held),
		peers: make(map[peer.ID]*heldPeer),
	}
}

// put keeps a verified record. It refuses an older one than it holds (Stale)
// and one for which there is no room (Full). A key that is full gives up the
// record that expires first, if that is before the new one does: a provider
// that is alive renews, one that is gone does not.
func (p *providerStore) put(s sealed, now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.keep(s, now); err != nil {
		return err
	}
	p.dirty.add(slot{s.Root, s.Provider})
	return nil
}

// restore is put for a record that is persisted already.
func (p *providerStore) restore(s sealed, now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.keep(s, now)
}

func (p *providerStore) keep(s sealed, now time.Time) error {
	hs := p.keys[s.Root]
	h := held{provider: s.Provider, seq: s.Seq, notAfter: s.NotAfter, envelope: s.envelope}
	if i := slices.IndexFunc(hs, func(h held) bool { return h.provider == s.Provider }); i >= 0 {
		if s.Seq < hs[i].seq {
			return refuse(Stale, nil)
		}
		hs[i] = h
		p.learn(s)
		return nil
	}
	if e := p.peers[s.Provider]; e != nil && e.n >= p.perPeer {
		return refuse(Full, nil)
	}
	if len(hs) >= p.perKey {
		first := 0
		for i := range hs {
			if hs[i].notAfter.Before(hs[first].notAfter) {
				first = i
			}
		}
		if !hs[first].notAfter.Before(s.NotAfter) {
			return refuse(Full, nil)
		}
		p.drop(s.Root, first)
		hs = p.keys[s.Root]
	} else if p.n >= p.total {
		if p.sweepLocked(now); p.n >= p.total {
			return refuse(Full, nil)
		}
		hs = p.keys[s.Root]
	}
	p.keys[s.Root] = append(hs, h)
	p.n++
	p.learn(s)
	p.peers[s.Provider].n++
	return nil
}

// learn keeps the provider's newest addresses.
func (p *providerStore) learn(s sealed) {
	e := p.peers[s.Provider]
	if e == nil {
		e = &heldPeer{}
		p.peers[s.Provider] = e
	}
	if e.signed == nil || s.addrs.Seq >= e.seq {
		e.seq, e.addrs, e.signed = s.addrs.Seq, s.addrs, s.peerRecord
	}
}

// get returns at most limit live records for root, in random order so that a
// cut falls on nobody in particular.
func (p *providerStore) get(root b3.Root, limit int, now time.Time) []sealed {
	p.mu.Lock()
	defer p.mu.Unlock()
	hs := p.keys[root]
	out := make([]sealed, 0, min(limit, len(hs)))
	for _, i := range rand.Perm(len(hs)) {
		if len(out) == limit {
			break
		}
		h := hs[i]
		if h.notAfter.Before(now) {
			continue
		}
		out = append(out, p.sealed(root, h))
	}
	return out
}

// sealed puts a record together.
func (p *providerStore) sealed(root b3.Root, h held) sealed {
	e := p.peers[h.provider]
	return sealed{
		Record:   Record{Root: root, Provider: h.provider, Seq: h.seq, NotAfter: h.notAfter},
		envelope: h.envelope, addrs: e.addrs, peerRecord: e.signed,
	}
}

// sweep drops what has expired.
func (p *providerStore) sweep(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sweepLocked(now)
}

func (p *providerStore) sweepLocked(now time.Time) {
	for root, hs := range p.keys {
		for i := len(hs) - 1; i >= 0; i-- {
			if hs[i].notAfter.Before(now) {
				p.drop(root, i)
				hs = p.keys[root]
			}
		}
	}
}

// drop removes the i-th record of root.
func (p *providerStore) drop(root b3.Root, i int) {
	hs := p.keys[root]
	p.dirty.add(slot{root, hs[i].provider})
	e := p.peers[hs[i].provider]
	if e.n--; e.n == 0 {
		delete(p.peers, hs[i].provider)
	}
	if p.n--; len(hs) == 1 {
		delete(p.keys, root)
		return
	}
	p.keys[root] = slices.Delete(hs, i, i+1)
}

// len is the number of records.
func (p *providerStore) len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.n
}
