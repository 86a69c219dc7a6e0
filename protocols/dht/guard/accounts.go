package guard

import (
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/limits"
)

// account is what one peer has used of its allowance.
type account struct {
	inflight *limits.FamilyGate
	rate     *limits.Rate
	users    int // requests between use and done; guarded by accounts.mu
}

// accounts keeps the peers' accounts. Nothing runs for a peer that is idle.
//
// Invariants: there is one account of a peer at a time; one with users is in
// open, whatever recent forgets. So open is bounded by the requests in flight.
type accounts struct {
	inflight *limits.GateFamily
	rate     *limits.Family

	mu     sync.Mutex
	open   map[peer.ID]*account
	recent *simplelru.LRU[peer.ID, *account]
}

func newAccounts(inflight *limits.GateFamily, rate *limits.Family) (*accounts, error) {
	recent, err := simplelru.NewLRU[peer.ID, *account](maxAccounts, nil)
	if err != nil {
		return nil, err
	}
	return &accounts{inflight: inflight, rate: rate, open: map[peer.ID]*account{}, recent: recent}, nil
}

// use returns p's account, which stays until done.
func (as *accounts) use(p peer.ID) *account {
	as.mu.Lock()
	defer as.mu.Unlock()
	a := as.open[p]
	if a == nil {
		var known bool
		if a, known = as.recent.Get(p); !known {
			a = &account{inflight: as.inflight.Gate(), rate: as.rate.Bucket()}
			as.recent.Add(p, a)
		}
		as.open[p] = a
	}
	a.users++
	return a
}

// done ends one use of p's account.
func (as *accounts) done(p peer.ID, a *account) {
	as.mu.Lock()
	defer as.mu.Unlock()
	if a.users--; a.users > 0 {
		return
	}
	delete(as.open, p)
	if !as.recent.Contains(p) {
		as.recent.Add(p, a)
	}
}
