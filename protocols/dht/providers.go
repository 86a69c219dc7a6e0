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
	"allium/protocols/dht/messages"
	"allium/protocols/dht/persist"
)

// providerStore holds verified records in RAM.
//
// An identity costs an attacker nothing. Records therefore compete for space by the IP
// group that they came from (see source), and stored records have precedence:
//
//   - A full key accepts a record of a group that has fewer of them. The group with most
//     records loses its newest. A group never displaces an equally large one.
//   - One place of each key is for a provider that was reached at its own address. The
//     first such record takes that place and keeps it.
//   - A full store applies the same rules to all keys together.
//
// A record counts for at most messages.MaxLifetime after it arrived, whatever it says. This node's
// own records are never displaced.
//
// Invariants: a key has at most perKey records, a provider at most perPeer, and the store
// at most total. For one provider and key there is one record, that with the highest seq.
// peers[p] and groups[g] exist while they have a record. Each provider has one peer record,
// so all of its records have its newest addresses. changes, if not nil, holds every key that
// was written or dropped since it was last taken.
type providerStore struct {
	most recordBounds

	// reports that the clock is right and expired records may be dropped; called without mu
	mayExpire func() bool
	ignores   func(peer.ID) bool // see Deps.IgnorePeer; called without mu

	mu        sync.Mutex                  // lock: leaf
	changes   *persist.Changes[recordKey] // nil: nothing is persisted
	keys      map[b3.Root][]*entry        // oldest first
	peers     map[peer.ID]*peerEntry
	groups    map[string]*groupEntry
	largest   heaviest.Heap[*groupEntry] // groups by records; without this node's own
	count     int
	lastSweep time.Time // when expired records were last dropped to make space
}

// recordBounds are the most records of one key, of one peer and of all.
type recordBounds struct{ perKey, perPeer, total int }

// source says where a record came from.
type source struct {
	group   string // see ipgroup.Key; empty: this node itself
	reached bool   // the provider was reached at its own address
}

// sourced is a verified record with its source.
type sourced struct {
	messages.Sealed
	source
}

// entry is one stored record. The provider's addresses are in its peerEntry. All records of a provider have the
// string of the peerEntry, and those of a group that of the groupEntry: a string of each would be a tenth of a record.
type entry struct {
	source
	root     b3.Root
	provider peer.ID
	seq      uint64
	notAfter time.Time // at most messages.MaxLifetime after the record arrived
	envelope []byte
	element  *list.Element // in its group
}

// peerEntry holds what all records of one provider share.
type peerEntry struct {
	id     peer.ID
	count  int // records
	seq    uint64
	addrs  peer.PeerRecord
	signed []byte
}

func newProviderStore(perKey, perPeer, total int) *providerStore {
	return &providerStore{
		most:      recordBounds{perKey, perPeer, total},
		mayExpire: func() bool { return true }, ignores: func(peer.ID) bool { return false },

		keys:   make(map[b3.Root][]*entry),
		peers:  make(map[peer.ID]*peerEntry),
		groups: make(map[string]*groupEntry),
	}
}

// setTotal changes the number of records that are held. Those beyond it stay until others take their places.
func setTotal(p *providerStore, total int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.most.total = total
}

// put stores a verified record. It refuses a record older than the stored one (Stale) and
// one that has no place (Full).
func (p *providerStore) put(s sourced, now time.Time) error {
	expire := p.mayExpire()
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.insert(s, now, expire); err != nil {
		return err
	}
	p.changes.Add(recordKey{s.Root, s.Provider})
	return nil
}

// restore is put for a record that the datastore already has.
func (p *providerStore) restore(s sourced, now time.Time) error {
	expire := p.mayExpire()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.insert(s, now, expire)
}

// insert adds or replaces a record. If expire is set, it first drops expired records when
// it needs a place.
func (p *providerStore) insert(s sourced, now time.Time, expire bool) error {
	h := &entry{
		source: s.source, root: s.Root, provider: s.Provider,
		seq: s.Seq, notAfter: messages.ClampLife(s.NotAfter, now), envelope: s.Envelope,
	}
	for i, old := range p.keys[s.Root] {
		if old.provider != s.Provider {
			continue
		}
		if s.Seq < old.seq {
			return messages.Refuse(messages.Stale, nil)
		}
		h.reached = h.reached || old.reached && h.group == old.group
		h.provider = old.provider
		if h.group == old.group {
			h.group, h.element, old.element.Value = old.group, old.element, h
		} else {
			p.leaveGroup(old)
			p.joinGroup(h)
		}
		p.keys[s.Root][i] = h
		p.updatePeer(s)
		return nil
	}
	if e := p.peers[s.Provider]; e != nil && e.count >= p.most.perPeer {
		return messages.Refuse(messages.Full, nil)
	}
	if expire && len(p.keys[s.Root]) >= p.most.perKey {
		p.expire(s.Root, now)
	}
	if hs := p.keys[s.Root]; len(hs) >= p.most.perKey {
		out := evictable(hs, h.source)
		if out == nil {
			return messages.Refuse(messages.Full, nil)
		}
		p.drop(out)
	} else if p.count >= p.most.total && !p.evictFor(h.group, now, expire) {
		return messages.Refuse(messages.Full, nil)
	}
	p.keys[s.Root] = append(p.keys[s.Root], h)
	p.count++
	p.joinGroup(h)
	of := p.updatePeer(s)
	of.count++
	h.provider = of.id
	return nil
}

// reached marks the records of a provider that came from group: the provider was reached
// at its own address.
func (p *providerStore) reached(id peer.ID, group string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	g := p.groups[group]
	if g == nil {
		return
	}
	for e := g.records.Front(); e != nil; e = e.Next() {
		if h := e.Value.(*entry); h.provider == id && !h.reached {
			h.reached = true
			p.changes.Add(recordKey{h.root, id})
		}
	}
}

// updatePeer stores the provider's addresses if they are at least as new as the stored ones. It returns the entry that
// has them.
func (p *providerStore) updatePeer(s sourced) *peerEntry {
	e := p.peers[s.Provider]
	if e == nil {
		e = &peerEntry{id: s.Provider}
		p.peers[s.Provider] = e
	}
	if e.signed == nil || s.Addrs.Seq >= e.seq {
		e.seq, e.addrs, e.signed = s.Addrs.Seq, s.Addrs, s.PeerRecord
	}
	return e
}

// removeRecord drops the record of a provider for root, if there is one.
func removeRecord(p *providerStore, root b3.Root, provider peer.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range p.keys[root] {
		if h.provider == provider {
			p.drop(h)
			return
		}
	}
}

// get returns at most limit unexpired records for root in random order, so that the limit
// favors no provider. Of those it leaves out ignored providers.
func (p *providerStore) get(root b3.Root, limit int, now time.Time) []sourced {
	return slices.DeleteFunc(p.pick(root, limit, now), func(s sourced) bool { return p.ignores(s.Provider) })
}

// pick is get with ignored providers.
func (p *providerStore) pick(root b3.Root, limit int, now time.Time) []sourced {
	p.mu.Lock()
	defer p.mu.Unlock()
	hs := p.keys[root]
	out := make([]sourced, 0, min(limit, len(hs)))
	for _, i := range rand.Perm(len(hs)) {
		if len(out) == limit {
			break
		}
		h := hs[i]
		if h.notAfter.Before(now) {
			continue
		}
		out = append(out, p.sourced(h))
	}
	return out
}

// sourced returns the record of h with its provider's addresses.
func (p *providerStore) sourced(h *entry) sourced {
	e := p.peers[h.provider]
	return sourced{messages.Sealed{
		Record:   messages.Record{Root: h.root, Provider: h.provider, Seq: h.seq, NotAfter: h.notAfter},
		Envelope: h.envelope, Addrs: e.addrs, PeerRecord: e.signed,
	}, h.source}
}

// sweep drops expired records.
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

// expire drops the expired records of a key.
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
func (p *providerStore) drop(h *entry) {
	p.changes.Add(recordKey{h.root, h.provider})
	p.leaveGroup(h)
	e := p.peers[h.provider]
	if e.count--; e.count == 0 {
		delete(p.peers, h.provider)
	}
	p.count--
	hs := p.keys[h.root]
	if len(hs) == 1 {
		delete(p.keys, h.root)
		return
	}
	i := slices.Index(hs, h)
	p.keys[h.root] = slices.Delete(hs, i, i+1)
}

// len returns the number of records.
func (p *providerStore) len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count
}
