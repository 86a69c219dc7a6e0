package certs

import (
	"context"
	"crypto/tls"
	"slices"
	"sync"
	"time"
)

// The bounds of certificates on demand.
const (
	firstWait   = 3500 * time.Millisecond // for a first certificate; below the time of a handshake
	maxWaits    = 64                      // handshakes that wait for one
	maxWanted   = 64                      // domains that are ordered or wait for their order
	maxOnDemand = 1024                    // certificates, the configured ones included
)

// demands are the domains for whose first certificate handshakes wait.
type demands struct {
	wanted chan string   // to Run
	waits  chan struct{} // one for each handshake that waits

	mu     sync.Mutex               // guards coming; lock: leaf
	coming map[string]chan struct{} // by domain; each is closed when its order has ended
}

func newDemands() *demands {
	return &demands{
		wanted: make(chan string, maxWanted),  // bound: maxWanted domains
		waits:  make(chan struct{}, maxWaits), // bound: maxWaits handshakes
		coming: map[string]chan struct{}{},
	}
}

// want asks Run to order the certificate of a domain, once for all who wait. came is closed when
// the order has ended. ok is false if too many are under way.
func (d *demands) want(domain string) (came <-chan struct{}, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c, ok := d.coming[domain]; ok {
		return c, true
	}
	if len(d.coming) >= maxWanted {
		return nil, false
	}
	c := make(chan struct{})
	d.coming[domain] = c
	select {
	case d.wanted <- domain:
	default: // it has room for as many as coming
	}
	return c, true
}

// settled tells the handshakes that wait for a domain that its order has ended.
func (d *demands) settled(domain string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c, ok := d.coming[domain]; ok {
		delete(d.coming, domain)
		close(c)
	}
}

// demand returns the first certificate of a domain that the node serves. It waits for firstWait
// while Run orders it, and no longer than ctx.
func (a *acmeCerts) demand(ctx context.Context, domain string) (*tls.Certificate, error) {
	if !a.mayDemand(domain) {
		return nil, errNoCertificate
	}
	c, result := a.await(ctx, domain)
	a.m.demands.WithLabelValues(result).Inc()
	if c == nil {
		return nil, errNoCertificate
	}
	return c, nil
}

// mayDemand reports whether a host may get a certificate on demand, if the node serves it.
func (a *acmeCerts) mayDemand(host string) bool {
	return a.cfg.ACMEOnDemand && a.node.Served != nil && domainName(host) &&
		!slices.Contains(a.cfg.ACMEDomains, host)
}

func (a *acmeCerts) await(ctx context.Context, domain string) (*tls.Certificate, string) {
	d := a.demands
	select {
	case d.waits <- struct{}{}:
		defer func() { <-d.waits }()
	default:
		return nil, demandRefused
	}
	ctx, cancel := context.WithTimeout(ctx, firstWait)
	defer cancel()
	if !a.node.Served(ctx, domain) {
		return nil, demandUnknown
	}
	if !a.ledger.allows(domain, a.now()) || a.full() {
		return nil, demandRefused
	}
	came, ok := d.want(domain)
	if !ok {
		return nil, demandRefused
	}
	select {
	case <-came:
	case <-ctx.Done():
		return nil, demandLate
	}
	if c := a.held(domain); c != nil {
		return c, demandMet
	}
	return nil, demandRefused // the order failed
}

// full reports whether there are as many certificates as may be.
func (a *acmeCerts) full() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.certs) >= maxOnDemand
}
