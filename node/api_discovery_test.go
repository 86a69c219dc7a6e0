package node_test

import (
	"slices"
	"testing"

	"allium/gateway/api"
	"allium/internal/testkit"
	"allium/node/config"
	"allium/protocols/status"
)

// TestTracedLookup follows one lookup: whom it asked, and that records held
// here are enough when nobody wants fresh ones.
func TestTracedLookup(t *testing.T) {
	noLeaks(t)
	seed := start(t, func(c *config.Config) { c.Resolver.AskConnected = false })
	a, b := start(t, joiningByRecords(seed)), start(t, joiningByRecords(seed))
	root := add(t, a, newTree(t, 1))[0].Root.String()
	awaitProvider(t, b, root)
	if _, err := a.api.Announce(t.Context(), root); err != nil { // returns when the others hold the record
		t.Fatal(err)
	}

	var trace api.Trace
	fresh := api.FindOptions{Query: api.Query{Limit: 1, Fresh: true}, Trace: &trace}
	for p, err := range b.api.FindProviders(t.Context(), root, fresh) {
		if err != nil || p.ID != a.ID().ID || len(p.Addrs) == 0 {
			t.Errorf("%+v, %v", p, err)
		}
	}
	if trace.End != "satisfied" || trace.Hops < 1 || trace.Probes != len(trace.Steps) || trace.TookMS <= 0 {
		t.Errorf("%+v", trace)
	}
	brought := slices.IndexFunc(trace.Steps,
		func(s api.Step) bool { return s.Providers == 1 && s.Outcome == "ok" && s.TookMS > 0 })
	if brought < 0 || !slices.Contains([]string{seed.ID().ID, a.ID().ID}, trace.Steps[brought].Peer) {
		t.Errorf("nobody brought it: %+v", trace.Steps)
	}

	var none api.Trace
	if got := lookup(t, a, "b3:00", api.FindOptions{Trace: &none}); got != status.BadAddress || none.End != "" {
		t.Errorf("a bad key: %v, %+v", got, none)
	}
	alone := start(t, nil)
	if got := lookup(t, alone, root, api.FindOptions{Trace: &trace}); got != status.NoBootstrap ||
		trace.End != "no_peers" || trace.Steps == nil {
		t.Errorf("alone: %v, %+v", got, trace)
	}

	known := api.FindOptions{Query: api.Query{Limit: 1}, Trace: &trace}
	for p, err := range seed.api.FindProviders(t.Context(), root, known) {
		if err != nil || p.ID != a.ID().ID {
			t.Errorf("%+v, %v", p, err)
		}
	}
	if trace.End != "satisfied" || trace.Probes != 0 || len(trace.Steps) != 0 {
		t.Errorf("held: %+v", trace)
	}
}

// lookup is the outcome of looking for providers.
func lookup(t *testing.T, n *running, key string, o api.FindOptions) status.Outcome {
	t.Helper()
	var last error
	for _, err := range n.api.FindProviders(t.Context(), key, o) {
		last = err
	}
	return status.Of(last)
}

// TestPeersHaveBuckets: a peer that answered a lookup has its bucket.
func TestPeersHaveBuckets(t *testing.T) {
	noLeaks(t)
	seed := start(t, nil)
	a := start(t, joining(seed))
	testkit.Eventually(t, "a bucket", func() bool {
		peers, err := a.api.Peers(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return len(peers) > 0 && peers[0].ID == seed.ID().ID && peers[0].Bucket != nil && *peers[0].Bucket >= 0 &&
			*peers[0].Bucket < 32 && peers[0].RTTMS > 0
	})
}

// TestRegions: a node's region reaches its peers, orders providers, and excludes only
// where that is asked for.
func TestRegions(t *testing.T) {
	noLeaks(t)
	seed := start(t, nil)
	in := func(region string) func(*config.Config) {
		return func(c *config.Config) {
			joining(seed)(c)
			c.Node.Region = region
		}
	}
	near, far, asker := start(t, in("eu")), start(t, in("us")), start(t, in("eu"))
	root, _ := addBytes(t, near, 8, 1000)
	addBytes(t, far, 8, 1000)
	for _, n := range []*running{near, far} {
		if _, err := n.api.Announce(t.Context(), root.String()); err != nil {
			t.Fatal(err)
		}
		if _, err := asker.api.Ping(t.Context(), n.ID().Addrs[0]); err != nil { // HELLO tells the region
			t.Fatal(err)
		}
	}
	find := func(q api.Query) (regions []string) {
		q.Fresh = true
		for p, err := range asker.api.FindProviders(t.Context(), root.String(), api.FindOptions{Query: q}) {
			if err != nil {
				t.Fatal(err)
			}
			regions = append(regions, p.Region)
		}
		return regions
	}
	testkit.Eventually(t, "both regions", func() bool { return slices.Equal(find(api.Query{}), []string{"eu", "us"}) })
	if got := find(api.Query{Region: "us"}); !slices.Equal(got, []string{"us"}) {
		t.Errorf("in us: %q", got)
	}
	if got := find(api.Query{Region: "mars"}); len(got) != 0 {
		t.Errorf("on Mars: %q", got)
	}
}
