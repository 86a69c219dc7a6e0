package lookup

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"allium/gateway/policy"
	"allium/internal/env"
	"allium/internal/limits"
	"allium/protocols/dht/namestore"
	"allium/protocols/dht/probes"
	"allium/protocols/name"
	"allium/protocols/record"
	"allium/protocols/status"
	"allium/resolver/providers"
	"allium/resolver/trace"
)

// Config bounds [Names].
type Config struct {
	Deadline    time.Duration // of Resolve, whatever is stuck
	NegativeTTL time.Duration // how long it is remembered that a name has no record
	Lookups     int64         // running at the same time; 512 more wait
}

// Finder asks the DHT, and perhaps peers. It returns the highest verified record of a name, or two that equivocate, or
// nothing when no peer has one. The error is stale if the record is older than one that this node
// has verified before. It returns when ctx ends.
type Finder interface {
	// t records the steps of the search by its end.
	// The origin is dht or peer.
	FindName(
		ctx context.Context, n name.Name, fresh bool, t *probes.Trace,
	) (name.Versions, record.Origin, error)
}

// Deps holds the dependencies of [Names]. Filter may be nil.
type Deps struct {
	env.Env

	Finder Finder
	Seen   *namestore.Seen // remembers what was found
	Filter policy.Filter   // of names that are resolved; nil denies nothing
}

// Names finds what names stand for. Its methods are safe for concurrent use.
type Names struct {
	cfg    atomic.Pointer[Config]
	find   Finder
	filter policy.Filter
	now    func() time.Time
	gate   *limits.Gate
	seen   *namestore.Seen
	m      *prometheus.CounterVec // result
	hits   prometheus.Counter     // of m

	mu     sync.Mutex // lock: leaf
	active map[flightKey]*flight

	followers *followers
}

// lookupsWaiting bounds the lookups that wait for one of Config.Lookups places.
const lookupsWaiting = 512

// New returns a Names. It starts nothing.
func New(cfg Config, d Deps) *Names {
	d.Env.SetDefaults()
	n := &Names{
		find: d.Finder, seen: d.Seen, filter: d.Filter, now: d.Now, active: map[flightKey]*flight{},
		gate: d.Limits.NewGate(limits.Spec{
			Name: "resolver.name_lookups", Path: "resolver → lookups of names",
			Policy: "512 wait, the rest are refused with busy",
		}, cfg.Lookups, lookupsWaiting),
		m: env.CounterVec("resolver_names_total",
			"Names asked for, by how they were answered: hit, negative (remembered that there is no record), stale "+
				"(an old record was taken), joined (a lookup that ran), found, absent, failed; and behind: lookups "+
				"that returned an older record than the one remembered.", "result"),
	}
	n.cfg.Store(&cfg)
	n.followers = newFollowers(d.Limits)
	n.hits = n.m.WithLabelValues("hit")
	if n.filter == nil {
		n.filter = policy.AllowAll{}
	}
	d.Limits.NewUsage(limits.Spec{
		Name: "resolver.names", Path: "lookups of names → resolver",
		Policy: "the least recently used record is dropped",
	}, namestore.MaxFound, n.seen.Bytes)
	env.MustRegister(d.Metrics, n.m)
	return n
}

// Reconfigure changes Deadline. Lookups that run keep theirs.
func (n *Names) Reconfigure(cfg Config) { n.cfg.Store(&cfg) }

// Options say which records a caller takes.
type Options struct {
	// MaxStale is the time after the end of a record's TTL, or of the record itself, for which it may still be
	// used. Such an answer is marked, and the name is looked up behind it. 0: none.
	MaxStale time.Duration
	// Fresh asks the network, and uses neither the cache nor the records that this node holds.
	Fresh bool
}

// Answer is the address or the text that a name stands for, with its records.
type Answer struct {
	Name     name.Name
	Value    name.Value    // of the last record of the chain: an address or text
	Chain    []name.Signed // from the record of Name on; at most name.MaxSteps
	Source   record.Origin // cache, or dht or peer if a record of the chain was looked up: the last one's
	Age      time.Duration // since the oldest record of the chain was looked up
	TTL      time.Duration // how long the answer may be remembered from now on; 0 if it is stale
	NotAfter time.Time     // when the first record of the chain expires
	Stale    bool          // the TTL of a record has passed, or the record has expired
	LookupID status.LookupID
}

// Resolve finds what a name stands for, within Config.Deadline. The error is denied, not_found,
// gone if the name was withdrawn, equivocation, stale if the zone's record has expired,
// bad_request for a loop, hop_exceeded for a chain that is too long, timeout, no_bootstrap, busy,
// or ctx's. The answer beside an error has the records of the chain up to there.
func (n *Names) Resolve(
	ctx context.Context, tasks providers.Tasks, what name.Name, opt Options, tr *trace.Lookup,
) (Answer, error) {
	a := Answer{Name: what, Source: providers.SourceCache}
	begun := time.Now()
	for at, start := what, begun; ; start = time.Now() {
		if err := n.filter.Name(at); err != nil {
			return a, err
		}
		f, err := n.one(ctx, tasks, at, opt, begun.Add(n.cfg.Load().Deadline), tr)
		if err != nil {
			tr.Failed(trace.DHT, time.Since(start), err)
			return a, err
		}
		rec, _ := f.Versions.Current()
		a.add(rec, f, n.now())
		if tr != nil {
			tr.Step(trace.Step{Source: f.source(), Verdict: trace.Hit,
				Took: time.Since(start), Note: rec.Name.String()})
		}
		if f.Versions.Equivocates() {
			return a, equivocation(f.Versions)
		}
		next, ok := rec.Value.Alias()
		switch {
		case rec.Value.Kind() == name.Withdrawn:
			return a, status.Errorf(status.Gone, "%s was withdrawn by the owner of its zone", at)
		case !ok:
			a.Value = rec.Value
			return a, nil
		case a.visited(next):
			return a, status.Errorf(status.BadRequest, "%s leads back to %s", what, next)
		case len(a.Chain) == name.MaxSteps:
			return a, status.Errorf(status.HopExceeded, "%s leads through more than %d names", what, name.MaxSteps)
		}
		at = next
	}
}

// Cached returns what a name stands for if the whole chain is remembered, and each record is fresh or
// as stale as maxStale allows (see Options.MaxStale). It does not wait; stale records are looked up
// behind the answer, as one of tasks, which may be nil if maxStale is 0. ok is false if Resolve has to
// look, or if the answer is an error.
func (n *Names) Cached(tasks providers.Tasks, what name.Name, maxStale time.Duration) (a Answer, ok bool) {
	now := n.now()
	a = Answer{Name: what, Source: providers.SourceCache}
	for at := what; len(a.Chain) < name.MaxSteps && n.filter.Name(at) == nil; {
		f, ok := n.seen.Get(at)
		rec, known := f.Versions.Current()
		if !ok || !known || !f.Serves(now, maxStale) || f.Versions.Equivocates() ||
			rec.Value.Kind() == name.Withdrawn {
			return Answer{}, false
		}
		a.add(rec, found{Found: f, from: providers.SourceCache}, now)
		if at, ok = rec.Value.Alias(); !ok {
			if a.Value = rec.Value; a.Stale {
				n.refresh(tasks, a.Chain, now)
			} else {
				n.hits.Inc()
			}
			return a, true
		}
	}
	return Answer{}, false
}

// refresh looks up the records of a chain that are stale, and does not wait.
func (n *Names) refresh(tasks providers.Tasks, chain []name.Signed, now time.Time) {
	n.m.WithLabelValues("stale").Inc()
	for _, rec := range chain {
		if f, ok := n.seen.Get(rec.Name); ok && !f.Serves(now, 0) {
			n.join(tasks, rec.Name, false, nil)
		}
	}
}

// equivocation returns the error for two records with one sequence number.
func equivocation(v name.Versions) error {
	r := v.Records()
	return status.Errorf(status.Equivocation,
		"the owner of the zone of %s signed two values with the number %d: %q and %q",
		r[0].Name, r[0].Seq, r[0].Value, r[1].Value)
}

// add appends a record to the chain.
func (a *Answer) add(rec name.Signed, f found, now time.Time) {
	ttl := max(0, f.Until.Sub(now))
	if len(a.Chain) == 0 {
		a.TTL, a.NotAfter = ttl, rec.NotAfter
	}
	a.Chain = append(a.Chain, rec)
	a.TTL = min(a.TTL, ttl)
	a.Age = max(a.Age, now.Sub(f.At))
	a.Stale = a.Stale || ttl == 0
	if rec.NotAfter.Before(a.NotAfter) {
		a.NotAfter = rec.NotAfter
	}
	if f.from != providers.SourceCache {
		a.Source = f.from
	}
}

// visited reports whether the chain has a record of a name.
func (a *Answer) visited(n name.Name) bool {
	for _, rec := range a.Chain {
		if rec.Name == n {
			return true
		}
	}
	return false
}

// found holds the records of one name, never none.
type found struct {
	namestore.Found
	from record.Origin // where it was looked up, dht or peer; or cache
}

func (f found) source() trace.Source {
	switch f.from {
	case providers.SourceCache:
		return trace.Cache
	case record.OriginServed:
		return trace.Index
	}
	return trace.DHT
}

// one finds the record of one name until the deadline.
func (n *Names) one(
	ctx context.Context, tasks providers.Tasks, what name.Name, opt Options, deadline time.Time, tr *trace.Lookup,
) (found, error) {
	now := n.now()
	if f, ok := n.seen.Get(what); ok && !opt.Fresh {
		none := f.Versions.Seq() == 0
		switch {
		case none && f.Serves(now, 0):
			n.m.WithLabelValues("negative").Inc()
			return found{}, absent(what)
		case none:
		case f.Serves(now, 0):
			n.hits.Inc()
			return found{f, providers.SourceCache}, nil
		case f.Serves(now, opt.MaxStale):
			n.m.WithLabelValues("stale").Inc()
			n.join(tasks, what, false, nil) // goes on behind the answer
			return found{f, providers.SourceCache}, nil
		}
	}
	ctx, cancel := context.WithDeadlineCause(ctx, deadline,
		status.Errorf(status.Timeout, "%s was not found within %s", what, n.cfg.Load().Deadline))
	defer cancel()
	f := n.join(tasks, what, opt.Fresh, tr)
	select {
	case <-f.done:
	case <-ctx.Done():
		return found{}, context.Cause(ctx)
	}
	if f.err != nil {
		return found{}, f.err
	}
	return f.found, nil
}

func absent(what name.Name) error {
	return status.Errorf(status.NotFound, "no record of %s was found", what)
}

// Observe takes up a verified record that came by another way than a lookup. If known is set, it
// is taken up only when this node remembers a record of the name, or somebody follows the name.
// Observe reports whether the record is newer than what was remembered. A record that is older than one that this node
// has verified before is not taken up.
func (n *Names) Observe(rec name.Signed, known bool) (news bool) {
	now := n.now()
	if rec.Check(now) != nil {
		return false
	}
	f, _ := n.seen.Get(rec.Name)
	if known && f.Versions.Seq() == 0 && !n.followers.has(rec.Name) {
		return false
	}
	v, rel := f.Versions.Add(rec)
	if rel == name.Older {
		return false
	}
	_, err := n.remember(rec.Name, v, now)
	return err == nil && rel != name.Same
}

// remember adds records that were found to those that are known of a name, and counts if they are older.
func (n *Names) remember(what name.Name, v name.Versions, now time.Time) (namestore.Found, error) {
	f, err := n.seen.Remember(what, v, now, n.cfg.Load().NegativeTTL)
	if v.Seq() > 0 && f.Versions.Seq() > v.Seq() {
		n.m.WithLabelValues("behind").Inc()
	}
	return f, err
}

// search is the one lookup of a name. The error is not remembered, but for not_found.
func (n *Names) search(ctx context.Context, what name.Name, fresh bool, s *trace.ActiveSearch) (found, error) {
	release, err := n.gate.Acquire(ctx)
	if err != nil {
		return found{}, fmt.Errorf("wait to look up %s: %w", what, err)
	}
	defer release()
	steps := &probes.Trace{}
	v, from, err := n.find.FindName(ctx, what, fresh, steps)
	s.Walked(providers.WalkOf(steps))
	if f, _ := n.seen.Get(what); f.Versions.Seq() > 0 && status.Of(err) == status.Stale {
		v, err = name.Versions{}, nil // the remembered record is newer than those of the holders
		n.m.WithLabelValues("behind").Inc()
	}
	now := n.now()
	f := found{from: from}
	if err == nil {
		f.Found, err = n.remember(what, v, now)
	}
	if err != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = status.Errorf(status.Timeout, "no record of %s was found within %s, and not every holder answered",
				what, n.cfg.Load().Deadline)
		}
		n.m.WithLabelValues("failed").Inc()
		return found{}, err
	}
	rec, ok := f.Versions.Current()
	switch {
	case !ok:
		n.m.WithLabelValues("absent").Inc()
		return found{}, absent(what)
	case rec.NotAfter.Before(now):
		n.m.WithLabelValues("absent").Inc()
		return found{}, status.Errorf(status.Stale, "the record of %s expired at %s, and no newer one was found",
			what, rec.NotAfter.UTC().Format(time.RFC3339))
	}
	n.m.WithLabelValues("found").Inc()
	return f, nil
}
