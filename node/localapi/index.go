package localapi

import (
	"context"

	"allium/gateway/api"
	"allium/protocols/b3"
	"allium/resolver"
)

// Index is what a node knows of objects. It implements index.Index of the gateway.
type Index struct{ Resolver *resolver.Resolver }

// Cached implements index.Index.
func (x Index) Cached(root b3.Root, q api.Query) (api.Resolved, bool, error) {
	a, ok, err := x.Resolver.Cached(root, query(q))
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

// resolved returns an answer as the API shows it.
func resolved(a *resolver.Answer) api.Resolved {
	found := api.Resolved{
		Key: a.Target.String(), Target: a.Target, Source: string(a.Source), AgeMS: a.Age.Milliseconds(),
		TTLMS: a.TTL.Milliseconds(), Confidence: api.Confidence(a.Confidence),
		Providers: make([]api.Provider, len(a.Providers)), LookupID: a.LookupID.String(),
	}
	for i := range a.Providers {
		found.Providers[i] = providerOf(&a.Providers[i])
	}
	return found
}
