package resolver

import (
	"context"
	"time"

	"allium/protocols/name"
	"allium/protocols/status"
	"allium/resolver/names/lookup"
	"allium/resolver/trace"
)

// ResolveName finds what a name stands for, within Config.Deadline; see [lookup.Names.Resolve] for its
// errors.
func (r *Resolver) ResolveName(ctx context.Context, n name.Name, opt lookup.Options) (lookup.Answer, error) {
	if r.names == nil {
		return lookup.Answer{}, status.Errorf(status.Unsupported, "this node resolves no names")
	}
	work, l, done, err := r.begin(ctx)
	if err != nil {
		return lookup.Answer{}, err
	}
	defer done()
	if !opt.Fresh {
		if a, ok := r.cachedName(l, status.ParentOf(ctx), n, opt.MaxStale); ok {
			return a, nil
		}
	}
	lookup := r.ring.BeginUnder(trace.ParentOf(ctx), trace.Name, trace.Key{Name: n.String()}, r.cfg.Load().Deadline)
	lookup.Call()
	begun := time.Now()
	a, err := r.names.Resolve(work, l, n, opt, lookup)
	err = drainingError(work, err)
	lookup.End(err)
	a.LookupID = lookup.ID()
	r.m.observe("name", begun)
	return a, lookup.Mark(err)
}

// CachedName returns what a name stands for if that is remembered and fresh, or as stale as maxStale
// allows. It does not wait.
func (r *Resolver) CachedName(n name.Name, maxStale time.Duration) (a lookup.Answer, ok bool) {
	if r.names == nil {
		return a, false
	}
	if maxStale == 0 {
		return r.cachedName(nil, 0, n, 0)
	}
	l, err := r.admit()
	if err != nil {
		return a, false
	}
	defer l.work.Leave()
	return r.cachedName(l, 0, n, maxStale)
}

// cachedName is CachedName below the lookup parent; l runs what is looked up behind a stale answer.
func (r *Resolver) cachedName(
	l *life, parent status.LookupID, n name.Name, maxStale time.Duration,
) (a lookup.Answer, ok bool) {
	if a, ok = r.names.Cached(l, n, maxStale); ok {
		a.LookupID = r.ring.HitUnder(parent, trace.Name, trace.Key{Name: n.String()}, trace.Cache, 0)
	}
	return a, ok
}

// ObserveName takes up a verified record that came by another way than a lookup; see
// [lookup.Names.Observe].
func (r *Resolver) ObserveName(rec name.Signed, known bool) (news bool) {
	return r.names != nil && r.names.Observe(rec, known)
}

// FollowName keeps a name in mind for ObserveName, until release is called; see [lookup.Names.Follow].
func (r *Resolver) FollowName(n name.Name) (release func(), err error) {
	if r.names == nil {
		return nil, status.Errorf(status.Unsupported, "this node resolves no names")
	}
	return r.names.Follow(n)
}

// WatchedNames returns at most limit of the names that are followed, in order, with the numbers of their followers,
// and how many it left out.
func WatchedNames(r *Resolver, limit int) (names []lookup.Watched, left int) {
	if r.names == nil {
		return nil, 0
	}
	return r.names.Watched(limit)
}
