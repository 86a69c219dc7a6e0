package certs

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// Times of ACME. Authorities limit failures per hour, so the pauses grow.
const (
	acmeRetry    = 5 * time.Minute // pause after the first failure; each failure doubles it
	acmeMaxRetry = 3 * time.Hour   // longest pause, before up to a quarter of jitter
	ordersAtOnce = 4
	lookEvery    = time.Minute // between two looks at the clock and at the node's addresses
)

// retryAfter returns the pause after some failures in a row.
func retryAfter(failures int) time.Duration {
	pause := min(acmeMaxRetry, acmeRetry<<min(failures-1, 10))
	return pause + rand.N(pause/4)
}

// notBeyond returns due, or the longest pause from now if that is earlier: the clock may have
// been set back.
func notBeyond(due, now time.Time) time.Time {
	if last := now.Add(acmeMaxRetry * 5 / 4); due.After(last) {
		return last
	}
	return due
}

// errNotServed ends the order of a domain that the node does not serve any more.
var errNotServed = errors.New("the node does not serve this domain")

// task is a subject whose certificate Run keeps.
type task struct {
	subject  string
	onDemand bool
	due      time.Time // of its next order
	failures int       // in a row
	ordering bool
}

// schedule has the tasks of one Run, which alone uses it.
type schedule struct {
	*acmeCerts
	tasks    map[string]*task
	ordering int // tasks with an order under way
	account  bool
	results  chan result
	orders   sync.WaitGroup
}

// result has the certificate of an order, or why there is none.
type result struct {
	subject string
	cert    *tls.Certificate
	err     error
}

// Run loads the stored certificates. Then it orders certificates that are missing or
// due for renewal, ordersAtOnce at a time, until ctx is done.
func (a *acmeCerts) Run(ctx context.Context) {
	s := &schedule{acmeCerts: a, tasks: map[string]*task{}, results: make(chan result)}
	defer s.orders.Wait()
	for _, d := range a.cfg.ACMEDomains {
		s.keep(d, false)
	}
	if a.cfg.ACMEOnDemand {
		s.loadOnDemand()
	}
	var looked time.Time
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case domain := <-a.demands.wanted:
			if s.keep(domain, true); s.held(domain) != nil { // it was stored
				s.demands.settled(domain)
			}
		case r := <-s.results:
			s.end(r)
		case <-timer.C:
		}
		if now := time.Now(); now.Sub(looked) >= lookEvery {
			looked = now
			s.lookAtAddresses(ctx)
		}
		s.begin(ctx)
		timer.Reset(s.wait())
	}
}

// keep adds the task of a subject, with its stored certificate if there is one.
func (s *schedule) keep(subject string, onDemand bool) {
	if s.tasks[subject] != nil {
		return
	}
	t := &task{subject: subject, onDemand: onDemand, due: s.now()}
	s.tasks[subject] = t
	if c := s.authority.stored(subject); c != nil {
		s.use(subject, c)
		t.due = renewal(c.Leaf)
	}
}

// loadOnDemand adds the domains on demand that have a certificate from before. Whether the node
// still serves them is asked when it would be renewed.
func (s *schedule) loadOnDemand() {
	for _, name := range s.authority.cache.list(maxOnDemand) {
		if !domainName(name) || s.tasks[name] != nil {
			continue
		}
		s.keep(name, true)
		if s.held(name) == nil { // it has ended; a handshake orders it again
			s.forget(name)
		}
	}
}

// forget ends the task of a subject and removes what is stored for it.
func (s *schedule) forget(subject string) {
	delete(s.tasks, subject)
	s.drop(subject)
	s.authority.cache.remove(fileOf(subject))
}

// lookAtAddresses adds the node's new addresses, and drops those that it has no more. Their stored certificates stay,
// because addresses often come back.
func (s *schedule) lookAtAddresses(ctx context.Context) {
	s.look(ctx)
	now := map[string]bool{}
	for _, ip := range *s.ips.Load() {
		now[ip.String()] = true
		s.keep(ip.String(), false)
	}
	for subject, t := range s.tasks {
		if isAddress(subject) && !now[subject] && !t.ordering {
			delete(s.tasks, subject)
			s.drop(subject)
		}
	}
}

// atOnce returns the number of orders that may be under way. Until there is an account it is one,
// which registers.
func (s *schedule) atOnce() int {
	if !s.account {
		return 1
	}
	return ordersAtOnce
}

// begin starts the orders that are due, those on demand last.
func (s *schedule) begin(ctx context.Context) {
	now := s.now()
	var due []*task
	for _, t := range s.tasks {
		if t.failures > 0 {
			t.due = notBeyond(t.due, now)
		}
		if !t.ordering && !t.due.After(now) {
			due = append(due, t)
		}
	}
	slices.SortFunc(due, func(a, b *task) int {
		switch {
		case a.onDemand != b.onDemand && b.onDemand:
			return -1
		case a.onDemand != b.onDemand:
			return 1
		}
		return cmp.Or(a.due.Compare(b.due), cmp.Compare(a.subject, b.subject))
	})
	for _, t := range due {
		if s.ordering >= s.atOnce() {
			return
		}
		if t.onDemand && !s.ledger.take(now) {
			t.due = now.Add(lookEvery)
			s.demands.settled(t.subject)
			continue
		}
		t.ordering = true
		s.ordering++
		register := !s.account
		s.orders.Go(func() {
			r := s.order(ctx, t.subject, t.onDemand, register)
			select {
			case s.results <- r:
			case <-ctx.Done():
			}
		})
	}
}

// order gets the certificate of a subject.
func (a *acmeCerts) order(ctx context.Context, subject string, onDemand, register bool) (r result) {
	r.subject = subject
	if onDemand && !a.node.Served(ctx, subject) {
		r.err = errNotServed
		return r
	}
	if register {
		if r.err = a.authority.register(ctx); r.err != nil {
			return r
		}
	}
	r.cert, r.err = a.authority.obtain(ctx, subject)
	return r
}

// end takes the result of an order.
func (s *schedule) end(r result) {
	t := s.tasks[r.subject]
	t.ordering = false
	s.ordering--
	if !s.account { // no other order is under way
		s.account = s.authority.registered()
	}
	switch {
	case r.err == nil:
		s.succeeded(t, r.cert)
	case errors.Is(r.err, errNotServed):
		s.log.Info("a domain has no certificate any more, because the node does not serve it", "domain", t.subject)
		s.forget(t.subject)
	default:
		s.failed(t, r.err)
	}
	s.demands.settled(t.subject)
	if t.onDemand {
		s.ledger.save()
	}
}

func (s *schedule) succeeded(t *task, c *tls.Certificate) {
	t.failures = 0
	life := c.Leaf.NotAfter.Sub(c.Leaf.NotBefore)
	t.due = renewal(c.Leaf).Add(rand.N(min(time.Hour, life/20) + 1)) // not all at once
	if t.onDemand {
		s.ledger.succeeded(t.subject)
	}
	s.use(t.subject, c)
	s.m.certUpdates.WithLabelValues("ok").Inc()
	s.log.Info("a new certificate is in use", "subject", t.subject, "not_after", c.Leaf.NotAfter)
}

func (s *schedule) failed(t *task, err error) {
	now := s.now()
	t.failures++
	t.due = now.Add(retryAfter(t.failures))
	if t.onDemand {
		t.due = s.ledger.failed(t.subject, now)
		if s.held(t.subject) == nil {
			delete(s.tasks, t.subject) // the next handshake after the pause orders it again
		}
	}
	s.m.certUpdates.WithLabelValues("failed").Inc()
	s.log.Warn("cannot get a certificate from the ACME authority", "subject", t.subject,
		"again_in", t.due.Sub(now).Round(time.Second), "err", err)
}

// wait returns the time until something is due, or until the next look.
func (s *schedule) wait() time.Duration {
	if s.ordering >= s.atOnce() {
		return lookEvery
	}
	now, wait := s.now(), lookEvery
	for _, t := range s.tasks {
		if !t.ordering {
			wait = min(wait, t.due.Sub(now))
		}
	}
	return max(wait, 0)
}
