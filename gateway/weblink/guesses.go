package weblink

import (
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/time/rate"

	"allium/internal/limits"
	"allium/protocols/status"
)

// The wrong secrets that a client may send: a burst, and then one in guessEvery. A client is an IPv4 address or an
// IPv6 /64.
const (
	guessBurst = 20
	guessEvery = 10 * time.Second
	maxGuests  = 4096 // clients that are remembered; the least recently seen is dropped
)

// guesses slows down clients that try secrets. Its methods may be called from any goroutine.
type guesses struct {
	mu  sync.Mutex // guards lru; lock: leaf
	lru *simplelru.LRU[netip.Prefix, *rate.Limiter]
}

func newGuesses(r *limits.Registry) *guesses {
	lru, err := simplelru.NewLRU[netip.Prefix, *rate.Limiter](maxGuests, nil)
	if err != nil {
		panic(err) // for a size below 1
	}
	g := &guesses{lru: lru}
	r.NewUsage(limits.Spec{
		Name: "gateway.link_guesses", Path: "wrong secrets of links → clients that sent them",
		Policy: "the least recently seen is dropped",
	}, maxGuests, func() int64 {
		g.mu.Lock()
		defer g.mu.Unlock()
		return int64(g.lru.Len())
	})
	return g
}

// allowed returns rate_limit for a client that has sent too many wrong secrets.
func (g *guesses) allowed(client netip.Prefix) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if l, ok := g.lru.Get(client); ok && l.Tokens() < 1 {
		return status.Errorf(status.RateLimit,
			"this network has opened many links that do not exist. Wait a minute, and open the right one")
	}
	return nil
}

// count counts a wrong secret.
func (g *guesses) count(client netip.Prefix) {
	g.mu.Lock()
	defer g.mu.Unlock()
	l, ok := g.lru.Get(client)
	if !ok {
		l = rate.NewLimiter(rate.Every(guessEvery), guessBurst)
		g.lru.Add(client, l)
	}
	l.Allow()
}
