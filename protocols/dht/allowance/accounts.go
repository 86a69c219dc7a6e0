package allowance

import (
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/limits"
	"allium/protocols/status"
)

// account counts what one peer uses of its allowance.
type account struct {
	inflight *limits.Gate
	rate     *limits.Rate
	requests int // between acquire and release; guarded by accounts.mu
}

// accounts holds the accounts of peers. Idle peers need no goroutine.
//
// Invariants: a peer has one account at a time. An account with requests is in active, even
// if recent has dropped it. So the requests in flight bound active.
type accounts struct {
	inflight *limits.Gate
	rate     *limits.Rate

	mu     sync.Mutex // lock: leaf
	active map[peer.ID]*account
	recent *simplelru.LRU[peer.ID, *account]
}

func newAccounts(r *limits.Registry, inflight, rate limits.Spec, cfg Config) (*accounts, error) {
	recent, err := simplelru.NewLRU[peer.ID, *account](maxAccounts, nil)
	if err != nil {
		return nil, err
	}
	as := &accounts{active: map[peer.ID]*account{}, recent: recent}
	inflight.Fullest, inflight.Refuse = as.fullest, status.Quota
	as.inflight = r.NewGate(inflight, int64(cfg.PeerInflight), 0)
	as.rate = r.NewRate(rate, float64(cfg.PeerRate), cfg.PeerRate)
	return as, nil
}

// fullest returns how many requests the peer has in flight that has most.
func (as *accounts) fullest() (most int64) {
	as.mu.Lock()
	defer as.mu.Unlock()
	for _, a := range as.active {
		most = max(most, a.inflight.Used())
	}
	return most
}

// acquire returns p's account, which exists until release.
func (as *accounts) acquire(p peer.ID) *account {
	as.mu.Lock()
	defer as.mu.Unlock()
	a := as.active[p]
	if a == nil {
		var known bool
		if a, known = as.recent.Get(p); !known {
			a = &account{inflight: as.inflight.Member(), rate: as.rate.Member()}
			as.recent.Add(p, a)
		}
		as.active[p] = a
	}
	a.requests++
	return a
}

// release ends one use of p's account.
func (as *accounts) release(p peer.ID, a *account) {
	as.mu.Lock()
	defer as.mu.Unlock()
	if a.requests--; a.requests > 0 {
		return
	}
	delete(as.active, p)
	if !as.recent.Contains(p) {
		as.recent.Add(p, a)
	}
}
