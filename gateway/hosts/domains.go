package hosts

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"allium/gateway/site"
	"allium/internal/limits"
	"allium/protocols/status"
)

// The bounds of what the DNS says.
const (
	maxDomains = 4096            // domains that are remembered, about 500 bytes each
	linkFor    = time.Minute     // how long a link counts, and that there is none
	failureFor = 5 * time.Second // how long a failure of the DNS counts
	staleFor   = time.Hour       // how long a link counts while the DNS fails
	askFor     = 2 * time.Second // the longest lookup
)

// DNS says what domains stand for.
type DNS interface {
	// DomainKey returns the address (b3:…) or the name with the key of its zone that the DNS has a link to for a
	// domain, with the path below it. It returns not_found if there is no link. It sets its own deadline.
	DomainKey(ctx context.Context, domain string) (key string, err error)
}

// ErrNoLink is the error of Linked for a domain without a link.
var ErrNoLink = status.Errorf(status.NotFound, "the DNS has no link for this host")

// domains remembers what the DNS said. It is safe for concurrent use.
type domains struct {
	dns DNS

	mu    sync.Mutex // guards what follows; lock: leaf
	lru   *simplelru.LRU[string, *link]
	asked map[string]*asking
}

// link holds the answer of the DNS for a domain.
type link struct {
	site *site.Site // nil: there is none
	err  error      // why site is nil
	old  bool       // the DNS failed, so an older link counts

	refused bool      // admit refused the request that would have asked, which says nothing about others
	until   time.Time // when the DNS is asked again
	stale   time.Time // until when site counts if the DNS fails
}

// asking is a lookup that runs.
type asking struct {
	done chan struct{} // closed when link is set
	link *link
}

func newDomains(dns DNS, registry *limits.Registry) (*domains, error) {
	lru, err := simplelru.NewLRU[string, *link](maxDomains, nil)
	if err != nil {
		return nil, fmt.Errorf("create the cache of domains: %w", err)
	}
	d := &domains{dns: dns, lru: lru, asked: map[string]*asking{}}
	registry.NewUsage(limits.Spec{
		Name: "gateway.domains", Path: "hosts → links of the DNS", Policy: "the least recently used is dropped",
	}, maxDomains, func() int64 {
		d.mu.Lock()
		defer d.mu.Unlock()
		return int64(d.lru.Len())
	})
	return d, nil
}

// Linked returns the site that the DNS has a link to for a domain in the form of Find. It returns ErrNoLink if there is
// none, and the DNS's error if that failed. Requests for one domain wait for one lookup, before which admit is called;
// if it refuses one of them, the next of them asks.
func (f *Finder) Linked(
	ctx context.Context, domain string, admit func(ctx context.Context) (leave func(), err error),
) (*site.Site, error) {
	if f == nil || f.domains.dns == nil {
		return nil, ErrNoLink
	}
	d := f.domains
	for {
		a, mine := d.begin(domain, time.Now())
		if mine {
			d.ask(ctx, domain, a, admit)
		}
		select {
		case <-a.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if mine || !a.link.refused {
			return a.link.site, a.link.err
		}
	}
}

// Linking reports whether a domain had a link when the DNS was last asked. It does not wait.
func (f *Finder) Linking(domain string) bool {
	if f == nil {
		return false
	}
	f.domains.mu.Lock()
	defer f.domains.mu.Unlock()
	l, ok := f.domains.lru.Peek(domain)
	return ok && l.site != nil
}

// begin returns the lookup of a domain. mine means that the caller runs it.
func (d *domains) begin(domain string, now time.Time) (a *asking, mine bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l, ok := d.lru.Get(domain); ok && now.Before(l.until) {
		return &asking{answered, l}, false
	}
	if a := d.asked[domain]; a != nil {
		return a, false
	}
	a = &asking{done: make(chan struct{})}
	d.asked[domain] = a
	return a, true
}

// answered is the channel of lookups that have ended.
var answered = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// ask asks the DNS. The client that began the lookup may go away, and others wait for it too.
func (d *domains) ask(
	ctx context.Context, domain string, a *asking, admit func(ctx context.Context) (leave func(), err error),
) {
	l := &link{err: status.Errorf(status.Internal, "the lookup of %s panicked", domain)}
	defer func() { d.end(domain, a, l, time.Now()) }()
	leave, err := admit(ctx)
	if err != nil {
		l.err, l.old, l.refused = err, true, true
		return
	}
	defer leave()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askFor)
	defer cancel()
	key, err := d.dns.DomainKey(ctx, domain)
	now := time.Now()
	l.err, l.until = err, now.Add(failureFor)
	switch out := status.Of(err); {
	case err == nil:
		var ok bool
		if l.site, ok = siteOf(key); !ok {
			l.err = status.Errorf(status.Upstream, "the link of %s leads to %.80q, which is neither address nor name",
				domain, key)
		}
		l.until, l.stale = now.Add(linkFor), now.Add(linkFor+staleFor)
	case out == status.NotFound:
		l.err, l.until = ErrNoLink, now.Add(linkFor)
	case !failed(err): // it answered, and the visitor has made no mistake
		l.err = status.Errorf(status.Upstream, "cannot serve %s: %w. The owner of the domain must mend its link",
			domain, err)
	}
	l.old = failed(err)
}

// end remembers what the DNS said. A failure leaves an older link in place for a while.
func (d *domains) end(domain string, a *asking, l *link, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if old, ok := d.lru.Peek(domain); ok && l.old && old.site != nil && now.Before(old.stale) {
		l = &link{site: old.site, until: l.until, stale: old.stale}
	}
	d.lru.Add(domain, l)
	delete(d.asked, domain)
	a.link = l
	close(a.done)
}

// failed reports whether an error says that the DNS failed, and not what it said.
func failed(err error) bool {
	switch status.Of(err) {
	case status.Timeout, status.Upstream, status.Busy, status.Canceled, status.Internal:
		return true
	}
	return false
}
