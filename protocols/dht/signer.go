package dht

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/dht/messages"
	"allium/protocols/status"
)

// signer signs this node's own records, and notices when another process does. Its methods are safe for concurrent use.
type signer struct {
	cfg     *atomic.Pointer[Config]
	deps    Deps
	self    peer.ID
	store   *providerStore
	gate    *limits.Gate // of signature checks
	signed  *signed
	started time.Time
	seq     atomic.Uint64 // highest sequence number given out
}

func newSigner(cfg *atomic.Pointer[Config], d Deps, store *providerStore, gate *limits.Gate) (*signer, error) {
	s := &signer{cfg: cfg, deps: d, self: d.Host.ID(), store: store, gate: gate, started: d.Now()}
	var err error
	s.signed, err = newSigned()
	return s, err
}

// sign makes a record for root with the current addresses of this host.
func (s *signer) sign(root b3.Root, now time.Time) (messages.Sealed, error) {
	addrs := s.deps.Host.Addrs()
	if len(addrs) == 0 {
		return messages.Sealed{}, status.Errorf(status.TransportDown,
			"this node has no address that others can use: check listen.addrs and listen.relays")
	}
	notAfter := now.Add(s.cfg.Load().RecordTTL).Truncate(time.Second)
	rec := messages.Record{Root: root, Provider: s.self, Seq: s.nextSeq(now), NotAfter: notAfter}
	return messages.Seal(s.deps.Key, rec, peer.PeerRecordFromAddrInfo(peer.AddrInfo{ID: s.self, Addrs: addrs}))
}

// current returns a record for root that was signed within recordReuse, or signs a
// new one and stores it. It does not reuse a record that was signed while the clock was
// ahead, because peers would refuse it as future-dated.
func (s *signer) current(root b3.Root, now time.Time) (messages.Sealed, error) {
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

// ofHeld returns a record of this node for an object that it has, and stores it.
// Signing takes half as long as a verification and waits at the same gate.
func (s *signer) ofHeld(ctx context.Context, root b3.Root) (messages.Sealed, error) {
	if !s.deps.Has(ctx, root) {
		return messages.Sealed{}, errNotStored
	}
	release, err := s.gate.Acquire(ctx)
	if err != nil {
		return messages.Sealed{}, err
	}
	defer release()
	return s.current(root, s.deps.Now())
}

// nextSeq returns a sequence number: the time in milliseconds, or one above the last
// number if that is higher. The numbers therefore also rise across a restart.
func (s *signer) nextSeq(now time.Time) uint64 {
	for {
		last := s.seq.Load()
		next := max(uint64(now.UnixMilli()), last+1)
		if s.seq.CompareAndSwap(last, next) {
			return next
		}
	}
}

// duplicateSlack is the longest time by which the sequence numbers of an earlier run may be ahead
// of the clock: in a burst of new records each number is one above the last.
const duplicateSlack = 5 * time.Minute

// checkDuplicate calls Deps.DuplicateIdentity for a record of this identity whose sequence
// number neither this run nor an earlier one has used.
func (s *signer) checkDuplicate(rec messages.Sealed) {
	if rec.Provider != s.self || s.deps.DuplicateIdentity == nil {
		return
	}
	if rec.Seq > s.seq.Load() && rec.Seq > uint64(s.started.Add(duplicateSlack).UnixMilli()) {
		s.deps.DuplicateIdentity(time.UnixMilli(int64(rec.Seq)), rec.Addrs.Addrs)
	}
}

// signed holds the records that this node signed less than recordReuse ago, at most maxSigned.
type signed struct {
	// lock: held across calls, because the host lists its addresses without I/O, and two signatures of one
	// object would differ
	mu      sync.Mutex                               // held while a record is signed; lock: leaf
	records *simplelru.LRU[b3.Root, messages.Sealed] // in the order of their signatures
}

func newSigned() (*signed, error) {
	records, err := simplelru.NewLRU[b3.Root, messages.Sealed](maxSigned, nil)
	return &signed{records: records}, err
}

// once returns the record of root that s signed lately, or has s sign one, which is fresh. Callers at the same time get
// the same one: else the peers that have the later one would refuse the other as stale.
func (x *signed) once(s *signer, root b3.Root, now time.Time) (rec messages.Sealed, fresh bool, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	end := now.Add(s.cfg.Load().RecordTTL)
	if rec, ok := x.records.Peek(root); ok && lately(rec, end) {
		return rec, false, nil
	}
	if rec, err = s.sign(root, now); err != nil {
		return messages.Sealed{}, false, err
	}
	x.records.Add(root, rec)
	for {
		if _, oldest, ok := x.records.GetOldest(); !ok || lately(oldest, end) {
			return rec, true, nil
		}
		x.records.RemoveOldest()
	}
}

// lately reports whether rec was signed within recordReuse, and not while the clock was ahead. end is when a record
// ends that is signed now.
func lately(rec messages.Sealed, end time.Time) bool {
	age := end.Sub(rec.NotAfter)
	return age < recordReuse && age >= -recordReuse
}

// forget forgets the record of root.
func (x *signed) forget(root b3.Root) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.records.Remove(root)
}
