package certs

import (
	"encoding/json"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// acmeLedger is the name of the ledger's file in the cache.
const acmeLedger = "acme_on_demand.json"

// The bounds of orders on demand, together below what Let's Encrypt allows an account
// (300 orders in 3 hours) with room for the configured domains.
const (
	ordersPerHour = 60
	maxFailures   = 1024    // domains whose failures are remembered
	maxCount      = 16      // failures in a row that are counted
	maxLedger     = 1 << 20 // bytes of the file
)

// ledger remembers the orders on demand and the domains for which they failed, also after a
// restart, so that neither strangers nor restarts make a node ask an authority too often.
type ledger struct {
	cache acmeCache
	log   *slog.Logger

	mu   sync.Mutex // guards book; lock: leaf
	book book
}

// book is the content of a ledger.
type book struct {
	Orders   []time.Time        `json:"orders"`   // of the last hour
	Failures map[string]failure `json:"failures"` // by domain
}

// failure says how often orders of a domain have failed in a row.
type failure struct {
	Count int       `json:"count"`
	Again time.Time `json:"again"` // before that none is made
}

// openLedger reads the ledger. One that cannot be read is as an empty one.
func openLedger(cache acmeCache, now time.Time, log *slog.Logger) *ledger {
	raw, err := cache.get(acmeLedger)
	if err != nil {
		log.Warn("cannot read a file of the ACME directory", "name", acmeLedger, "err", err)
	}
	return &ledger{cache: cache, log: log, book: parseBook(raw, now)}
}

// parseBook reads a book, and leaves out what cannot be true at the time now.
func parseBook(raw []byte, now time.Time) book {
	var read book
	if len(raw) > maxLedger || json.Unmarshal(raw, &read) != nil {
		read = book{}
	}
	b := book{Orders: read.Orders, Failures: map[string]failure{}}
	b.expire(now)
	for domain, f := range read.Failures {
		if domainName(domain) && f.Count > 0 && len(b.Failures) < maxFailures {
			b.Failures[domain] = failure{min(f.Count, maxCount), notBeyond(f.Again, now)}
		}
	}
	return b
}

// expire leaves the orders of the last hour. If the clock was set back, those after now go.
func (b *book) expire(now time.Time) {
	b.Orders = slices.DeleteFunc(b.Orders, func(t time.Time) bool { return t.After(now) || now.Sub(t) >= time.Hour })
	b.Orders = b.Orders[max(0, len(b.Orders)-ordersPerHour):]
}

// allows reports whether an order for a domain may be made at the time now.
func (l *ledger) allows(domain string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.book.expire(now)
	return len(l.book.Orders) < ordersPerHour && !now.Before(notBeyond(l.book.Failures[domain].Again, now))
}

// take counts an order at the time now, or returns false if the last hour had too many.
func (l *ledger) take(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.book.expire(now); len(l.book.Orders) >= ordersPerHour {
		return false
	}
	l.book.Orders = append(l.book.Orders, now)
	return true
}

// failed records that an order failed, and returns when the next one may be made.
func (l *ledger) failed(domain string, now time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	count := min(l.book.Failures[domain].Count+1, maxCount)
	if _, ok := l.book.Failures[domain]; !ok && len(l.book.Failures) >= maxFailures {
		l.book.leaveOut()
	}
	f := failure{count, now.Add(retryAfter(count))}
	l.book.Failures[domain] = f
	return f.Again
}

// leaveOut forgets the failure that ends first.
func (b *book) leaveOut() {
	first := ""
	for domain, f := range b.Failures {
		if first == "" || f.Again.Before(b.Failures[first].Again) {
			first = domain
		}
	}
	delete(b.Failures, first)
}

// succeeded forgets the failures of a domain.
func (l *ledger) succeeded(domain string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.book.Failures, domain)
}

// save writes the ledger to its file.
func (l *ledger) save() {
	l.mu.Lock()
	raw, err := json.Marshal(l.book)
	l.mu.Unlock()
	if err == nil {
		err = l.cache.put(acmeLedger, raw)
	}
	if err != nil {
		l.log.Warn("cannot store which certificates failed; a restart forgets it", "err", err)
	}
}
