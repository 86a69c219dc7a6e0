package local

import (
	"context"
	"slices"
	"strings"
	"time"

	"allium/gateway/api"
	"allium/protocols/address"
	"allium/protocols/kad"
	"allium/protocols/name"
	"allium/protocols/status"
	"allium/resolver/names"
	"allium/resolver/trace"
)

// Why implements api.Node.
func (a *Node) Why(ctx context.Context, key string) (api.Why, error) {
	if id, ok := status.ParseLookupID(key); ok {
		rec, ok := a.deps.Trace.Get(id)
		if !ok {
			return api.Why{}, status.Errorf(status.NotFound,
				"there is no record of lookup %s; the node remembers the latest lookups only, and none from before "+
					"its start",
				key)
		}
		return a.why(rec), nil
	}
	key, err := address.Canonical(key)
	if err != nil {
		return api.Why{}, err
	}
	if names.IsName(key) {
		if n, ok := a.deps.Keys.Recorded(ctx, key); ok {
			return a.whyOf(key, trace.Key{Name: n})
		}
	}
	target, err := names.Address(key)
	root, path := target.Root, target.Path
	switch {
	case err != nil && !strings.HasPrefix(key, "b3:"):
		return api.Why{}, status.Errorf(status.BadAddress, "%q is neither an address nor the ID of a lookup; "+
			"an address is b3: and 64 lowercase hex digits, an ID is 16 of them", key)
	case err != nil:
		return api.Why{}, err
	case path != "":
		return api.Why{}, status.Errorf(status.BadRequest,
			"a lookup has an address and no path; `allium ls` shows the address of a path")
	}
	return a.whyOf(key, trace.Key{Root: root})
}

// films answers the calls about films of slow lookups.
type films struct{ ring *trace.Ring }

// Film implements api.Node.
func (f films) Film(_ context.Context, lookup string) (api.Film, error) {
	id, ok := status.ParseLookupID(lookup)
	if !ok {
		return api.Film{}, api.ErrLookupID(lookup)
	}
	film := f.ring.Film(id)
	if film == nil {
		return api.Film{}, status.Errorf(status.NotFound, "there is no trace of lookup %s: the node keeps the "+
			"latest 4, of lookups that took more than 4 times the p99 of their class, at most one a minute", id)
	}
	return api.Film{ID: lookup, Trace: film}, nil
}

// why returns a lookup, and what the lookup of a name led to.
func (a *Node) why(rec trace.Record) api.Why {
	w := api.Why{Lookup: lookupOf(rec), Film: a.deps.Trace.Filmed(rec.ID)}
	if rec.Kind == trace.Name {
		for _, part := range a.deps.Trace.Parts(rec.ID, api.MaxOtherLookups) {
			w.Parts = append(w.Parts, headOf(part.Head))
		}
	}
	return w
}

// whyOf returns the newest lookup of a key that took any time, and others.
func (a *Node) whyOf(key string, of trace.Key) (api.Why, error) {
	records := a.deps.Trace.Latest(of, trace.MaxEntries)
	if len(records) == 0 {
		return api.Why{}, status.Errorf(status.NotFound,
			"there is no record of a lookup of %s; the node remembers the latest lookups only, and none from before "+
				"its start",
			key)
	}
	show := max(0, slices.IndexFunc(records, func(r trace.Record) bool { return !r.AtOnce() }))
	w := a.why(records[show])
	for i, rec := range records {
		if i == show || len(w.Others) == api.MaxOtherLookups {
			continue
		}
		w.Others = append(w.Others, headOf(rec.Head))
	}
	return w, nil
}

// lookupOf returns a record for the API.
func lookupOf(rec trace.Record) api.Lookup {
	l := api.Lookup{
		LookupHead: headOf(rec.Head), Callers: rec.Callers, Bytes: rec.Bytes,
		Steps:     converted(rec.Steps, stepOf),
		Searches:  converted(rec.Searches, func(s trace.Search) api.LookupSearch { return searchOf(s, rec.Start) }),
		Providers: converted(rec.Peers, askedOf),
	}
	if t := rec.Tree; t != nil {
		l.Tree = &api.LookupTree{
			Objects: t.Objects, Bytes: t.Bytes, Fetched: t.Fetched, FetchedBytes: t.FetchedBytes, Skipped: t.Skipped,
			Failures: converted(t.Failures, func(f trace.Failure) api.LookupFailure {
				return api.LookupFailure{
					Root: f.Root, Lookup: f.Lookup.String(), Outcome: f.Outcome.String(), Message: f.Message,
				}
			}),
		}
	}
	if o := rec.Omitted; o != (trace.Omitted{}) {
		l.Omitted = &api.LookupOmissions{
			Steps: o.Steps, Searches: o.Searches, Providers: o.Peers, Spans: o.Spans, Failures: o.Failures,
		}
	}
	return l
}

// converted returns f of each value; it is never nil.
func converted[T, U any](values []T, f func(T) U) []U {
	all := make([]U, len(values))
	for i, v := range values {
		all[i] = f(v)
	}
	return all
}

func headOf(h trace.Head) api.LookupHead {
	v := api.LookupHead{
		ID: h.ID.String(), Parent: h.Parent.String(), Kind: string(h.Kind), Key: h.Key.String(), Start: h.Start,
		TookMS: milliseconds(h.Took), ReadyMS: milliseconds(h.Ready), BudgetMS: milliseconds(h.Budget),
		Running: h.Running, Message: h.Message,
	}
	if !h.Running || h.Outcome != status.OK {
		v.Outcome = h.Outcome.String()
	}
	return v
}

func stepOf(s trace.Step) api.LookupStep {
	return api.LookupStep{
		AtMS: milliseconds(s.At), TookMS: milliseconds(s.Took), Source: string(s.Source), Verdict: string(s.Verdict),
		Count: s.Count, Lookup: s.Lookup.String(), Note: s.Note,
	}
}

// searchOf returns a search of a lookup that began at start.
func searchOf(s trace.Search, start time.Time) api.LookupSearch {
	v := api.LookupSearch{
		Key: s.Key.String(), AtMS: milliseconds(s.Start.Sub(start)), TookMS: milliseconds(s.Took), Joined: s.Joined,
		Running: s.Running, Found: s.Found, Message: s.Message, Omitted: s.Walk.Omitted,
	}
	if !s.Running {
		v.Outcome = s.Outcome.String()
	}
	if w := s.Walk; w.End != "" {
		target := targetOf(s.Key)
		v.Trace = &api.Trace{
			End: w.End, Hops: w.Hops, Probes: w.Asked, Hedges: w.Hedges, TookMS: milliseconds(w.Took),
			Steps: converted(w.Probes, func(p trace.Probe) api.Step {
				return api.Step{
					Peer: p.Peer.String(), Hop: p.Hop, Hedge: p.Hedge, StartMS: milliseconds(p.Start),
					TookMS: milliseconds(p.Took), Outcome: p.Outcome, Closer: p.Closer, Providers: p.Providers,
					Shared: target.CommonPrefix(kad.Hash([]byte(p.Peer))),
				}
			}),
		}
	}
	return v
}

// targetOf returns the place in the key space that a search approaches.
func targetOf(key trace.Key) kad.Key {
	if key.Name == "" {
		return kad.Hash(key.Root.Multihash())
	}
	n, err := name.Parse(key.Name)
	if err != nil {
		return kad.Key{} // a domain, which no search is for
	}
	return kad.Hash([]byte(name.KeyOf(n.Digest())))
}

func askedOf(p trace.Peer) api.LookupProvider {
	v := api.LookupProvider{
		ID: p.ID.String(), Source: string(p.Origin), FoundMS: milliseconds(p.Found), Asked: p.Asked, Bytes: p.Bytes,
		Extra: p.Extra, Rate: p.Rate, RTTMS: milliseconds(p.RTT), Hedges: api.LookupHedges(p.Hedges),
		Spans: converted(p.Spans, spanOf), Omitted: p.Omitted,
	}
	if g := p.GaveUp; g != nil {
		v.GaveUp = &api.LookupGaveUp{AtMS: milliseconds(g.At), Outcome: g.Outcome.String(), Message: g.Message}
	}
	return v
}

func spanOf(s trace.Span) api.LookupSpan {
	return api.LookupSpan{
		AtMS: milliseconds(s.At), SentMS: milliseconds(s.Sent), FirstMS: milliseconds(s.First),
		TookMS: milliseconds(s.Took), Start: s.From, End: s.To, Objects: s.Objects, Bytes: s.Bytes, Extra: s.Extra,
		Hedge: s.Hedge, Outcome: s.Outcome.String(), Message: s.Message,
	}
}
