package gateway

import (
	"context"
	"sync"
	"time"

	"allium/gateway/api"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// fakeIndex is what a node knows of objects. It remembers what it was told once with
// known, and finds after a search what it was told with find.
type fakeIndex struct {
	mu       sync.Mutex
	known    map[b3.Root]api.Resolved
	find     map[b3.Root]api.Resolved
	fail     map[b3.Root]error
	gate     chan struct{} // a search waits for it; nil: it does not wait
	searches []api.Query
}

func (x *fakeIndex) Cached(root b3.Root, _ api.Query) (a api.Resolved, ok bool, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	a, ok = x.known[root]
	return a, ok, nil
}

func (x *fakeIndex) Resolve(ctx context.Context, root b3.Root, q api.Query) (api.Resolved, error) {
	x.mu.Lock()
	x.searches = append(x.searches, q)
	a, ok := x.find[root]
	err, gate := x.fail[root], x.gate
	x.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return a, ctx.Err()
		}
	}
	if err == nil && !ok {
		err = status.WithLookup(status.Errorf(status.NotFound,
			"no provider was found; connect to a peer that has it, or try again later"), 0xabc)
	}
	return a, err
}

// CachedName remembers no name.
func (x *fakeIndex) CachedName(string, api.Query) (a api.Resolved, ok bool) { return a, false }

// ResolveName finds the name blog.alice, which stands for the object that it finds.
func (x *fakeIndex) ResolveName(ctx context.Context, name string, q api.Query) (api.Resolved, error) {
	x.mu.Lock()
	all := x.find
	x.mu.Unlock()
	for root := range all {
		if name == "blog.alice" {
			a, err := x.Resolve(ctx, root, q)
			a.Key, a.Path, a.Chain = name, "site", []api.Record{{Name: name, Value: root.String() + "/site", Seq: 7}}
			a.Stale = q.MaxStale > 0
			return a, err
		}
	}
	return api.Resolved{}, status.WithLookup(status.Errorf(status.NotFound, "no record of %s was found", name), 0xabc)
}

// searched returns the searches since the last call.
func (x *fakeIndex) searched() []api.Query {
	x.mu.Lock()
	defer x.mu.Unlock()
	all := x.searches
	x.searches = nil
	return all
}

// resolvedBy returns an answer that names providers.
func resolvedBy(root b3.Root, source string, providers ...string) api.Resolved {
	a := api.Resolved{
		Key: root.String(), Target: root, Source: source, AgeMS: 1500, TTLMS: 8500, Confidence: api.Signed,
		LookupID: "00000000000000ff",
	}
	for _, id := range providers {
		a.Providers = append(a.Providers, api.Provider{
			ID: id, Addrs: []string{"/ip4/192.0.2.1/tcp/4001"}, Region: "eu", RTTMS: 12.5,
			NotAfter: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Source: "dht", Confidence: api.Signed,
		})
	}
	return a
}
