package providers

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
	"allium/protocols/dht/probes"
	"allium/protocols/record"
	"allium/protocols/status"
	"allium/resolver/trace"
)

// Cached fills a with the answer that is remembered for a query. ok is false when there is
// none; Resolve must be called then. It may be called too when only a lookup that found
// nobody is remembered, since this node may have the object by now. The error is
// not_found, when the query wants none of the providers.
//
// Cached does not wait, does not allocate unless the query filters, and neither reads the
// clock nor copies the answer, as these would cost as much as the rest of it.
func (p *Pool) Cached(a *Answer, root b3.Root, q *Query, now trace.Instant) (ok bool, err error) {
	if q.Fresh || q.Trace != nil {
		return false, nil
	}
	e := p.cache.get(root)
	if e == nil || e.ranking == nil {
		return false, nil
	}
	r := e.ranking
	left := r.expires.Sub(now)
	if left <= 0 {
		return false, nil
	}
	if r.epoch != p.peers.epoch.Load() {
		r = rerank(p, root, r)
	}
	some := q.chosen(r.providers, p.now)
	if !q.enough(r, len(some)) {
		return false, nil
	}
	p.m.hits.Inc()
	if len(some) == 0 {
		return true, nobody(q, nil)
	}
	a.Target, a.Providers, a.Source, a.Confidence = root, some, SourceCache, r.sure
	a.Age, a.TTL = r.expires.Sub(r.at)-left, left
	if len(some) < len(r.providers) {
		a.Confidence = best(some)
	}
	return true, nil
}

// Resolve finds providers of an object and ranks them. It looks in this order, and
// ends as soon as the query is satisfied: the cache, this node's store, the peers
// that served the object or its directory, the peers that announced it by gossip, the
// connected peers, and the DHT. A source that has not satisfied after Config.HedgeAfter is joined by the
// next. A provider whose circuit breaker is open does not satisfy. All of it takes at
// most Config.Deadline, whatever is stuck. It records in t what it did.
//
// Errors are not_found, timeout, the error of the DHT, busy when too many lookups
// run, and ctx's. An answer that was found in part is returned without an error.
func (p *Pool) Resolve(ctx context.Context, tasks Tasks, root b3.Root, q Query, t *trace.Lookup) (Answer, error) {
	var a Answer
	if ok, err := p.Cached(&a, root, &q, trace.Now()); ok {
		t.Step(trace.Step{Source: trace.Cache, Verdict: trace.Hit, Count: int64(len(a.Providers))})
		return a, err
	}
	// A context with the deadline would cost as much as the rest of a refusal, so the waits know it.
	s := &search{p: p, root: root, q: &q, trace: t, ends: time.Now().Add(p.cfg.Load().Deadline)}
	if !q.Fresh {
		s.askHere(ctx, tasks)
	}
	if s.more() {
		s.askNetwork(ctx, tasks)
	}
	switch {
	case len(s.found) > 0:
	case ctx.Err() != nil:
		return Answer{}, context.Cause(ctx)
	case tasks.Context().Err() != nil:
		return Answer{}, ErrDraining
	}
	return s.answer()
}

// search is one run of Resolve. One goroutine uses it.
type search struct {
	p     *Pool
	root  b3.Root
	q     *Query
	trace *trace.Lookup
	ends  time.Time // the deadline

	found  []record.Provider // each peer once
	usable int               // of them that pass the filters and have no open breaker
	here   <-chan bool       // receives once whether the store has the object; nil: nothing is expected

	complete bool // the search of the DHT, or a remembered one, came to its end
	err      error
	cachedAt time.Time // when the DHT was asked; zero: now
	expires  time.Time // of what the DHT said; zero: unknown
}

// more reports whether the query is not satisfied yet.
func (s *search) more() bool {
	if s.q.All {
		return s.usable < s.q.limit()
	}
	return s.usable == 0
}

// add adds providers, those of them that are new.
func (s *search) add(origin record.Origin, all ...record.Provider) {
	for _, p := range all {
		known := slices.IndexFunc(s.found, func(o record.Provider) bool { return o.ID == p.ID })
		if known >= 0 && s.found[known].Origin == record.OriginConnected && origin == record.OriginDHT {
			p.Origin = origin // its record says more than its claim
			s.found[known] = p
		}
		if known >= 0 || len(s.found) == MaxProviders || p.ID == "" || p.ID == s.p.self &&
			origin != record.OriginLocal {
			continue
		}
		p.Origin = origin
		s.found = append(s.found, p)
		described := s.p.describe(s.root, p)
		if s.q.wants(&described, s.p.now()) && s.p.peers.usable(p.ID) {
			s.usable++
			s.trace.Ready()
		}
	}
}

// note records what a source said, which is known since begun.
func (s *search) note(from trace.Source, found int, begun time.Time) {
	verdict := trace.Hit
	if found == 0 {
		verdict = trace.Miss
	}
	s.trace.Step(trace.Step{Source: from, Verdict: verdict, Count: int64(found), Took: time.Since(begun)})
}

// askHere asks what this node knows: its store, for at most Config.HedgeAfter, the
// peers that served, and the announcements.
func (s *search) askHere(ctx context.Context, tasks Tasks) {
	if !s.q.PeersOnly {
		s.here = s.p.store.ask(ctx, tasks, s.root)
	}
	if s.here != nil {
		begun := time.Now()
		wait := time.NewTimer(min(s.p.cfg.Load().HedgeAfter, s.ends.Sub(begun)))
		defer wait.Stop()
		select {
		case has := <-s.here:
			s.heardHere(has)
			s.note(trace.Store, len(s.found), begun)
		case <-wait.C:
			s.trace.Step(trace.Step{Source: trace.Store, Verdict: trace.Asked, Took: time.Since(begun)})
		case <-tasks.Context().Done():
		case <-ctx.Done():
		}
	}
	if !s.more() {
		return
	}
	begun, before := time.Now(), len(s.found)
	if by, ok := s.p.served.Get(s.root); ok {
		s.add(record.OriginServed, record.Provider{AddrInfo: peer.AddrInfo{ID: by}})
	}
	if !s.q.Via.IsZero() {
		if by, ok := s.p.served.Get(s.q.Via); ok {
			s.add(record.OriginServed, record.Provider{AddrInfo: peer.AddrInfo{ID: by}})
		}
	}
	s.note(trace.Served, len(s.found)-before, begun)
	begun, before = time.Now(), len(s.found)
	s.add(record.OriginGossip, s.p.hints(s.root)...)
	s.note(trace.Gossip, len(s.found)-before, begun)
}

// heardHere takes the answer of the store.
func (s *search) heardHere(has bool) {
	s.here = nil
	if has {
		s.add(record.OriginLocal, record.Provider{AddrInfo: peer.AddrInfo{ID: s.p.self}})
	}
}

// askNetwork asks the DHT. Without Query.All it goes on for Config.HedgeAfter after
// the first provider, because others arrive at about the same time.
func (s *search) askNetwork(ctx context.Context, tasks Tasks) {
	find := FindOptions{Fresh: s.q.Fresh}
	want := len(s.found) + 1
	if s.q.All || s.q.filters() {
		want = MaxProviders
	}
	if s.q.Trace != nil {
		find.Trace, find.Limit = &probes.Trace{}, s.q.limit()
	}
	l := s.p.lookups.join(tasks, s.root, find, want, s.trace)
	defer s.p.lookups.leave(l)
	if l.cached() {
		end := l.outcome()
		s.cachedAt, s.expires = end.at, end.expires
	}
	var soon, late <-chan time.Time
	for i := 0; ; {
		found, changed := l.read(i)
		i += len(found)
		for _, p := range found {
			s.add(p.Origin, p)
		}
		if changed == nil {
			end := l.outcome()
			s.complete, s.err = end.complete, end.err
			if s.here == nil || !s.more() {
				break
			}
			// The store is late, and the last that may have the object.
		}
		if !s.more() && s.q.Trace == nil {
			if s.q.All || s.usable >= s.q.limit() {
				break
			}
			if soon == nil {
				timer := time.NewTimer(s.p.cfg.Load().HedgeAfter)
				defer timer.Stop()
				soon = timer.C
			}
		}
		if late == nil {
			timer := time.NewTimer(time.Until(s.ends))
			defer timer.Stop()
			late = timer.C
		}
		select {
		case <-changed:
			continue
		case has := <-s.here:
			s.heardHere(has)
			continue
		case <-soon:
		case <-late:
			if changed == nil && s.err != nil {
				break
			}
			s.err = status.Errorf(status.Timeout, "no provider found within %s", s.p.cfg.Load().Deadline)
			if _, failure := l.state(); status.Of(failure) == status.NoBootstrap {
				s.err = failure
			}
		case <-tasks.Context().Done():
			s.err = ErrDraining
		case <-ctx.Done():
			s.err = context.Cause(ctx)
		}
		break
	}
	if s.q.Trace != nil {
		bounded, cancel := context.WithDeadline(ctx, s.ends)
		defer cancel()
		if t := l.trace(bounded); t != nil {
			*s.q.Trace = *t
		}
	}
}

// answer ranks what was found, remembers it, and returns what the query wants of it.
func (s *search) answer() (Answer, error) {
	p, now := s.p, trace.Now()
	if len(s.found) == 0 {
		return Answer{}, nobody(s.q, s.err)
	}
	r := p.rank(s.root, s.found)
	r.complete = s.complete
	r.expires = now.Add(lifetime(p.cfg.Load().PositiveTTL, s.found, p.now()))
	if !s.cachedAt.IsZero() {
		r.at = trace.InstantOf(s.cachedAt)
		r.expires = min(r.expires, trace.InstantOf(s.expires))
	}
	remembered := !s.cachedAt.IsZero() && lookedUp(&r.providers[0].Provider)
	if s.q.Trace == nil {
		p.cache.addRanking(s.root, r)
	}
	some := s.q.chosen(r.providers, p.now)
	if len(some) == 0 {
		return Answer{}, nobody(s.q, nil)
	}
	a := Answer{
		Target: s.root, Providers: some, Source: some[0].Origin, Confidence: best(some),
		Age: now.Sub(r.at), TTL: r.expires.Sub(now),
	}
	if remembered && lookedUp(&some[0].Provider) {
		a.Source = SourceCache
	}
	return a, nil
}

// nobody returns the error of a search without a provider that the query wants. err
// is the error of the DHT's lookup, or nil.
func nobody(q *Query, err error) error {
	if err != nil {
		return err
	}
	which := ""
	switch {
	case q.Region != "":
		which = fmt.Sprintf(" in the region %q", q.Region)
	case q.MinFreshness > 0:
		which = fmt.Sprintf(" whose record is at most %s old", q.MinFreshness)
	}
	return status.Errorf(status.NotFound,
		"no provider%s was found; connect to a peer that has it, or try again later", which)
}
