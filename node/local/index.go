package local

import (
	"context"

	"allium/gateway/api"
	"allium/gateway/policy"
	"allium/node/local/reading"
	"allium/protocols/b3"
	"allium/protocols/name"
	"allium/protocols/status"
	"allium/resolver"
	"allium/resolver/names"
	"allium/resolver/names/lookup"
)

// Index resolves keys with the knowledge of a node. It implements index.Index of the gateway.
type Index struct {
	Resolver *resolver.Resolver
	Keys     *names.Resolver
	Filter   policy.Filter // of what names stand for
}

// Cached implements index.Index.
func (x Index) Cached(root b3.Root, q api.Query) (api.Resolved, bool, error) {
	return x.cachedUnder(0, root, q)
}

// cachedUnder is Cached for an object that the lookup parent led to, zero for none.
func (x Index) cachedUnder(parent status.LookupID, root b3.Root, q api.Query) (api.Resolved, bool, error) {
	a, ok, err := x.Resolver.Cached(parent, root, query(q))
	if !ok || err != nil {
		return api.Resolved{}, ok, err
	}
	return resolved(&a), true, nil
}

// Resolve implements index.Index.
func (x Index) Resolve(ctx context.Context, root b3.Root, q api.Query) (api.Resolved, error) {
	a, err := x.Resolver.Resolve(ctx, root, query(q))
	if err != nil {
		return api.Resolved{}, err
	}
	return resolved(&a), nil
}

// CachedName implements index.Index.
func (x Index) CachedName(key string, q api.Query) (a api.Resolved, ok bool) {
	t, ok := x.Keys.Cached(key, q.MaxStale)
	if !ok || x.Filter.Object(t.Root) != nil {
		return a, false
	}
	a, ok, err := x.cachedUnder(t.Name.LookupID, t.Root, q)
	if !ok || err != nil {
		return a, false
	}
	return withName(a, key, t), true
}

// ResolveName implements index.Index. That nobody has what the name stands for is no error: the
// name was found.
func (x Index) ResolveName(ctx context.Context, key string, q api.Query) (api.Resolved, error) {
	t, err := x.Keys.Resolve(ctx, key, lookup.Options{Fresh: q.Fresh, MaxStale: q.MaxStale})
	if t.Name != nil && t.Name.Value.Kind() == name.Text {
		return withName(api.Resolved{Providers: []api.Provider{}, Value: t.Name.Value.String()}, key, t), nil
	}
	if err == nil {
		err = x.Filter.Object(t.Root)
	}
	if err != nil {
		return api.Resolved{}, err
	}
	a, err := x.Resolve(reading.Under(ctx, t), t.Root, q)
	if err != nil && status.Of(err) != status.NotFound {
		return api.Resolved{}, err
	}
	if a.Providers == nil {
		a.Providers = []api.Provider{}
	}
	return withName(a, key, t), nil
}

// withName adds what was found of a name to the answer for what it stands for. Source, age and
// time are those of the name, as it changes and the address does not.
func withName(a api.Resolved, key string, t names.Target) api.Resolved {
	n := t.Name
	a.Key, a.Target, a.Path, a.LookupID = key, t.Root, t.Path, n.LookupID.String()
	a.Source, a.AgeMS, a.TTLMS = string(n.Source), n.Age.Milliseconds(), n.TTL.Milliseconds()
	a.Confidence, a.Stale, a.NotAfter = api.Signed, n.Stale, n.NotAfter
	if len(t.Links) > 0 {
		a.Confidence = api.Hint // nobody signs what the DNS says
	}
	for _, link := range t.Links {
		a.Chain = append(a.Chain, api.Record{Name: link.Domain, Found: string(t.Origin.Origin), Value: link.Text})
	}
	for i, rec := range n.Chain {
		r := api.Record{
			Name: rec.Name.String(), Seq: rec.Seq, Value: rec.Value.String(), NotAfter: rec.NotAfter,
			TTLMS: rec.TTL.Milliseconds(),
		}
		if i == 0 {
			a.Seq = rec.Seq
			if len(t.Links) == 0 {
				r.Short, r.Found = t.Origin.Short.String(), string(t.Origin.Origin)
			}
		}
		a.Chain = append(a.Chain, r)
	}
	return a
}

// resolved returns an answer as the API shows it.
func resolved(a *resolver.Answer) api.Resolved {
	found := api.Resolved{
		Key: a.Target.String(), Target: a.Target, Source: string(a.Source), AgeMS: a.Age.Milliseconds(),
		TTLMS: a.TTL.Milliseconds(), Confidence: a.Confidence,
		Providers: make([]api.Provider, len(a.Providers)), LookupID: a.LookupID.String(),
	}
	for i := range a.Providers {
		found.Providers[i] = providerOf(&a.Providers[i])
	}
	return found
}
