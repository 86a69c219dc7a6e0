package hints

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/heaviest"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// via says how an announcement arrived.
type via string

const (
	viaOwn    via = "own"
	viaGossip via = "gossip"
	viaSync   via = "sync"
)

// memory holds verified announcements.
//
// Invariants: a slot has one announcement, the newest. All together are at most maxN and maxBytes.
// Those of one provider from one origin are at most 1/shareOf of each, at least one. If an
// addition would exceed the share, that provider loses its oldest. If it would exceed the total,
// the provider with the most bytes, of the origin with the most bytes, loses its oldest.
//
// An origin is the IP group of the peer that brought an announcement. So neither a provider with
// many announcements nor many identities of one network displace a provider with few. An
// announcement from a comparison uses only free space: otherwise peers would bring back again
// and again what was dropped.
type memory struct {
	maxN     int
	maxBytes int64

	mu      sync.Mutex // lock: leaf
	slots   map[slot]*held
	ids     map[id]*held
	roots   map[b3.Root][]*held
	holders map[holderKey]*holder
	origins map[string]*origin
	most    heaviest.Heap[*origin]
	bytes   int64
	hints   int // number of roots in all announcements
}

type held struct {
	*announcement
	from *holder
}

// holderKey is a provider and the origin of its announcements.
type holderKey struct {
	origin   string
	provider peer.ID
}

// holder holds the announcements of one provider from one origin.
type holder struct {
	holderKey
	of    *origin
	bytes int64
	held  []*held // oldest first
	at    int     // index in origin.most
}

// origin holds the announcements that one IP group brought.
type origin struct {
	name  string
	bytes int64
	most  heaviest.Heap[*holder]
	at    int // index in memory.most
}

// Weight and Place implement heaviest.Item.
func (h *holder) Weight() int64 { return h.bytes }
func (h *holder) Place() *int   { return &h.at }

// Weight and Place implement heaviest.Item.
func (o *origin) Weight() int64 { return o.bytes }
func (o *origin) Place() *int   { return &o.at }

// shareOf is the divisor of the total that one provider may use.
const shareOf = 8

// The approximate memory that an announcement takes beside its envelope, and that each object and
// each address part in it takes.
const (
	sizeOfOne  = 512
	sizeOfRoot = 168
	sizeOfPart = 64 // of an address; two bytes may be a part
)

func (a *announcement) size() int64 {
	n := sizeOfOne + int64(len(a.envelope)) + sizeOfRoot*int64(a.count())
	for _, addr := range a.addrs {
		n += sizeOfPart * int64(len(addr))
	}
	return n
}

func newMemory(maxN int, maxBytes int64) *memory {
	return &memory{
		maxN: maxN, maxBytes: maxBytes,
		slots: map[slot]*held{}, ids: map[id]*held{}, roots: map[b3.Root][]*held{},
		holders: map[holderKey]*holder{}, origins: map[string]*origin{},
	}
}

// put adds a. fresh is false if a is already there. The errors are status.Stale (a newer one of
// its slot is there, or a has expired) and status.Quota (there is no space).
func (m *memory) put(a *announcement, from via, now time.Time) (fresh bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.judge(a, now); err != nil {
		return false, err
	}
	old := m.slots[a.slot]
	if old != nil && old.id == a.id {
		return false, nil
	}
	if from == viaSync && !m.fits(a, old) {
		return false, errFull
	}
	if old != nil {
		m.drop(old)
	}
	h := m.add(a)
	for m.beyond(h.from) {
		m.drop(h.from.held[0])
	}
	for m.bytes > m.maxBytes || len(m.slots) > m.maxN {
		m.drop(m.most[0].most[0].held[0])
	}
	if m.slots[a.slot] != h {
		return false, errFull
	}
	return true, nil
}

var errFull = status.Errorf(status.Quota, "this provider has too many announcements here")

// known reports whether put would refuse a or already has it, so that a need not be verified.
func (m *memory) known(a *announcement, now time.Time) (here bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.judge(a, now); err != nil {
		return false, err
	}
	return m.ids[a.id] != nil, nil
}

// judge returns an error if a is too old.
func (m *memory) judge(a *announcement, now time.Time) error {
	if !a.notAfter.After(now) {
		return status.Errorf(status.Stale, "announce: expired")
	}
	if old := m.slots[a.slot]; old != nil && old.id != a.id && old.newer(a) {
		return status.Errorf(status.Stale, "announce: replaced by a newer one")
	}
	return nil
}

// fits reports whether a can be added in place of old, which may be nil, without dropping
// another announcement.
func (m *memory) fits(a *announcement, old *held) bool {
	bytes, n, mine, mineN := a.size(), 1, a.size(), 1
	if h := m.holders[a.holder()]; h != nil {
		mine, mineN = mine+h.bytes, mineN+len(h.held)
	}
	if old != nil {
		bytes, n = bytes-old.size(), 0
		if old.from.holderKey == a.holder() {
			mine, mineN = mine-old.size(), mineN-1
		}
	}
	return m.bytes+bytes <= m.maxBytes && len(m.slots)+n <= m.maxN && (mineN == 1 || m.within(mine, mineN))
}

// beyond reports whether a provider exceeds its share.
func (m *memory) beyond(h *holder) bool { return len(h.held) > 1 && !m.within(h.bytes, len(h.held)) }

func (m *memory) within(bytes int64, n int) bool {
	return bytes <= m.maxBytes/shareOf && n <= max(m.maxN/shareOf, 1)
}

// holder returns the key of the share that a counts for.
func (a *announcement) holder() holderKey { return holderKey{a.origin, a.provider} }

// holderOf returns a's holder and creates it if there is none.
func (m *memory) holderOf(a *announcement) *holder {
	if of := m.holders[a.holder()]; of != nil {
		return of
	}
	from := m.origins[a.origin]
	if from == nil {
		from = &origin{name: a.origin}
		m.origins[a.origin] = from
		m.most.Push(from)
	}
	of := &holder{holderKey: a.holder(), of: from}
	m.holders[a.holder()] = of
	from.most.Push(of)
	return of
}

// count adds n bytes to a holder and restores the order.
func (m *memory) count(of *holder, n int64) {
	of.bytes += n
	of.of.bytes += n
	of.of.most.Fix(of)
	m.most.Fix(of.of)
}

func (m *memory) add(a *announcement) *held {
	of := m.holderOf(a)
	h := &held{announcement: a, from: of}
	of.held = append(of.held, h)
	m.count(of, a.size())
	m.slots[a.slot], m.ids[a.id] = h, h
	a.each(func(r b3.Root) { m.roots[r] = append(m.roots[r], h) })
	m.bytes += a.size()
	m.hints += a.count()
	return h
}

func (m *memory) drop(h *held) {
	delete(m.slots, h.slot)
	delete(m.ids, h.id)
	h.each(func(r b3.Root) {
		hs := m.roots[r]
		if i := slices.Index(hs, h); len(hs) > 1 {
			m.roots[r] = slices.Delete(hs, i, i+1)
		} else {
			delete(m.roots, r)
		}
	})
	m.bytes -= h.size()
	m.hints -= h.count()
	of := h.from
	m.count(of, -h.size())
	i := slices.Index(of.held, h)
	if of.held = slices.Delete(of.held, i, i+1); len(of.held) > 0 {
		return
	}
	of.of.most.Remove(of)
	delete(m.holders, of.holderKey)
	if len(of.of.most) == 0 {
		m.most.Remove(of.of)
		delete(m.origins, of.of.name)
	}
}

// providers returns at most limit announcements that contain root, of different providers other
// than self, in random order.
func (m *memory) providers(root b3.Root, self peer.ID, limit int, now time.Time) []*announcement {
	m.mu.Lock()
	defer m.mu.Unlock()
	hs := m.roots[root]
	if len(hs) == 0 {
		return nil
	}
	var out []*announcement
	start := rand.IntN(len(hs))
	for i := 0; i < len(hs) && len(out) < limit; i++ {
		h := hs[(start+i)%len(hs)]
		dup := slices.ContainsFunc(out, func(a *announcement) bool { return a.provider == h.provider })
		if !dup && h.provider != self && h.notAfter.After(now) {
			out = append(out, h.announcement)
		}
	}
	return out
}

// of returns the announcements of provider that contain root.
func (m *memory) of(provider peer.ID, root b3.Root, now time.Time) []*announcement {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []*announcement
	for _, h := range m.roots[root] {
		if h.provider == provider && h.notAfter.After(now) {
			out = append(out, h.announcement)
		}
	}
	return out
}

// emptied returns an announcement that provider signed on this node and that names no object, nil if
// there is none.
func (m *memory) emptied(provider peer.ID) *announcement {
	m.mu.Lock()
	defer m.mu.Unlock()
	if of := m.holders[holderKey{provider: provider}]; of != nil {
		for _, h := range of.held {
			if h.count() == 0 {
				return h.announcement
			}
		}
	}
	return nil
}

// get returns an announcement by its ID, nil if it is not there.
func (m *memory) get(i id) *announcement {
	m.mu.Lock()
	defer m.mu.Unlock()
	if h := m.ids[i]; h != nil {
		return h.announcement
	}
	return nil
}

// lacks returns those of ids that are not there.
func (m *memory) lacks(ids []id) (out []id) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, i := range ids {
		if m.ids[i] == nil {
			out = append(out, i)
		}
	}
	return out
}

// live lists the announcements that have not expired.
func (m *memory) live(now time.Time) []id {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]id, 0, len(m.ids))
	for i, h := range m.ids {
		if h.notAfter.After(now) {
			out = append(out, i)
		}
	}
	return out
}

// sweep drops expired announcements and reports whether there were any.
func (m *memory) sweep(now time.Time) (some bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, h := range m.slots {
		if !h.notAfter.After(now) {
			m.drop(h)
			some = true
		}
	}
	return some
}

// usage returns the number of announcements, of objects in them, and of bytes.
func (m *memory) usage() (n, hints int, bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.slots), m.hints, m.bytes
}
