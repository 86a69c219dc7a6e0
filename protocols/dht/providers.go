package dht

import (
	"container/list"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/heaviest"
	"allium/protocols/b3"
)

// providerStore holds verified records in RAM.
//
// Who may have a record here costs an attacker nothing but an identity, so room
// is shared out by the IP group that a record came from (see source), and what
// is here stays:
//
//   - A full key gives a place to a record of a group that has fewer of them, and
//     the group with most loses its newest. Of equal groups none gives way.
//   - One place of a key is for a provider that was reached at its own address:
//     the first such record finds room, and keeps it.
//   - A full store does the same over all keys.
//
// No record counts for longer than maxLifetime from when it came, whatever it
// says. This node's own records give way to none.
//
// Invariants: len(records of a key) ≤ perKey, records of one provider ≤
// perPeer, records in all ≤ total; of a provider and a key there is one record,
// the one with the highest seq; peers[p] and groups[g] exist while they have a
// record. A peer record is held once per provider, so all of a provider's
// records get the addresses of the newest. dirty, if there is one, has every
// slot that was written or dropped since it was last taken.
type providerStore struct {
	perKey, perPeer, total int

	mayExpire func() bool // the clock is right, so that what has expired makes room; called without mu

	mu     sync.Mutex
	dirty  *dirtySet           // nil: nothing is persisted
	keys   map[b3.Root][]*held // oldest first
	peers  map[peer.ID]*heldPeer
	groups map[string]*heldGroup
	most   heaviest.Heap[*heldGroup] // groups but for this node's own
	n      int
	swept  time.Time // when expired records were last dropped to make room
}

// source is where a record came from.
type source struct {
	group   string // what shares are counted by, see ipgroup.Key; empty: this node itself
	reached bool   // the provider was reached at its own address
}

// held is one record without what its provider's entry says.
type held struct {
	source
	root     b3.Root
	provider peer.ID
	seq      uint64
	notAfter time.Time // at most maxLifetime after the record came
	envelope []byte
	at       *list.Element // in its group
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
		mayExpire: func() bool { return true },

		keys:   make(map[b3.Root][]*held),
		peers:  make(map[peer.ID]*heldPeer),
		groups: make(map[string]*heldGroup),
	}
}

// put keeps a verified record. It refuses an older one than it holds (Stale)
// and one for which there is no room (Full).
func (p *providerStore) put(s sealed, now time.Time) error {
	expire := p.mayExpire()
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.keep(s, now, expire); err != nil {
		return err
	}
	p.dirty.add(slot{s.Root, s.Provider})
	return nil
}

// restore is put for a record that is persisted already.
func (p *providerStore) restore(s sealed, now time.Time) error {
	expire := p.mayExpire()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.keep(s, now, expire)
}

// keep is put. What has expired makes room first, if it may be dropped.
func (p *providerStore) keep(s sealed, now time.Time, expire bool) error {
	h := &held{source: s.source, root: s.Root, provider: s.Provider, seq: s.Seq, notAfter: clampLife(s.NotAfter, now), envelope: s.envelope}
	for i, old := range p.keys[s.Root] {
		if old.provider != s.Provider {
			continue
		}
		if s.Seq < old.seq {
			return refuse(Stale, nil)
		}
		h.reached = h.reached || old.reached && h.group == old.group
		if h.group == old.group {
			h.at, old.at.Value = old.at, h
		} else {
			p.leave(old)
			p.join(h)
		}
		p.keys[s.Root][i] = h
		p.learn(s)
		return nil
	}
	if e := p.peers[s.Provider]; e != nil && e.n >= p.perPeer {
		return refuse(Full, nil)
	}
	if expire && len(p.keys[s.Root]) >= p.perKey {
		p.expire(s.Root, now)
	}
	if hs := p.keys[s.Root]; len(hs) >= p.perKey {
		out := yielding(hs, h.source)
		if out == nil {
			return refuse(Full, nil)
		}
		p.drop(out)
	} else if p.n >= p.total && !p.makeRoom(h.group, now, expire) {
		return refuse(Full, nil)
	}
	p.keys[s.Root] = append(p.keys[s.Root], h)
	p.n++
	p.join(h)
	p.learn(s)
	p.peers[s.Provider].n++
	return nil
}

// clampLife is when a record that ends then counts as expired.
func clampLife(notAfter, now time.Time) time.Time {
	if latest := now.Add(maxLifetime); notAfter.After(latest) {
		return latest
	}
	return notAfter
}

// reached says that a provider was reached at its own address, for the records
// of it that came from that group.
func (p *providerStore) reached(id peer.ID, group string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	g := p.groups[group]
	if g == nil {
		return
	}
	for e := g.records.Front(); e != nil; e = e.Next() {
		if h := e.Value.(*held); h.provider == id && !h.reached {
			h.reached = true
			p.dirty.add(slot{h.root, id})
		}
	}
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
		out = append(out, p.sealed(h))
	}
	return out
}

// sealed puts a record together.
func (p *providerStore) sealed(h *held) sealed {
	e := p.peers[h.provider]
	return sealed{
		Record:   Record{Root: h.root, Provider: h.provider, Seq: h.seq, NotAfter: h.notAfter},
		envelope: h.envelope, addrs: e.addrs, peerRecord: e.signed, source: h.source,
	}
}

// sweep drops what has expired.
func (p *providerStore) sweep(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sweepLocked(now)
}

func (p *providerStore) sweepLocked(now time.Time) {
	for root := range p.keys {
		p.expire(root, now)
	}
}

// expire drops what has expired of a key.
func (p *providerStore) expire(root b3.Root, now time.Time) {
	hs := p.keys[root]
	for i := len(hs) - 1; i >= 0; i-- {
		if hs[i].notAfter.Before(now) {
			p.drop(hs[i])
			hs = p.keys[root]
		}
	}
}

// drop removes a record.
func (p *providerStore) drop(h *held) {
	p.dirty.add(slot{h.root, h.provider})
	p.leave(h)
	e := p.peers[h.provider]
	if e.n--; e.n == 0 {
		delete(p.peers, h.provider)
	}
	p.n--
	hs := p.keys[h.root]
	if len(hs) == 1 {
		delete(p.keys, h.root)
		return
	}
	i := slices.Index(hs, h)
	p.keys[h.root] = slices.Delete(hs, i, i+1)
}

// len is the number of records.
func (p *providerStore) len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.n
}
