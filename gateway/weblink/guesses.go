package weblink

import (
	"net/netip"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
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
	lru *lru.Cache[netip.Prefix, *rate.Limiter]
}

func newGuesses(r *limits.Registry) *guesses {
	known, err := lru.New[netip.Prefix, *rate.Limiter](maxGuests)
	if err != nil {
		panic(err) // for a size below 1
	}
	r.NewUsage(limits.Spec{
		Name: "gateway.link_guesses", Path: "wrong secrets of links → clients that sent them",
		Policy: "the least recently seen is dropped",
	}, maxGuests, func() int64 { return int64(known.Len()) })
	return &guesses{known}
}

// allowed returns rate_limit for a client that has sent too many wrong secrets.
func (g *guesses) allowed(client netip.Prefix) error {
	if l, ok := g.lru.Get(client); ok && l.Tokens() < 1 {
		return status.Errorf(status.RateLimit,
			"this network has opened many links that do not exist. Wait a minute, and open the right one")
	}
	return nil
}

// count counts a wrong secret.
func (g *guesses) count(client netip.Prefix) {
	l, ok := g.lru.Get(client)
	if !ok {
		l = rate.NewLimiter(rate.Every(guessEvery), guessBurst)
		if first, ok, _ := g.lru.PeekOrAdd(client, l); ok { // another request was first
			l = first
		}
	}
	l.Allow()
}
