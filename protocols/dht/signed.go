package dht

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"allium/protocols/b3"
	"allium/protocols/dht/messages"
)

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
