package dht

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/env"
	"allium/internal/limits"
	"allium/internal/testkit"
	"allium/protocols/b3"
	"allium/protocols/dht/probes"
	"allium/protocols/record"
	"allium/protocols/status"
)

// node is a real host on loopback with discovery.
type node struct {
	*Service
	identity
	host    host.Host
	stop    func() error // of the service; idempotent
	ignored atomic.Pointer[peer.ID]
}

func (n *node) addr() string {
	return fmt.Sprintf("%s/p2p/%s", n.host.Addrs()[0], n.host.ID())
}

// startNode starts a node that bootstraps from seeds.
func startNode(t *testing.T, roots func() iter.Seq[b3.Root], seeds ...*node) *node {
	t.Helper()
	return startIn(t, false, roots, seeds...)
}

// startIn starts a node, in a private network or not.
func startIn(t *testing.T, private bool, roots func() iter.Seq[b3.Root], seeds ...*node) *node {
	t.Helper()
	me := newIdentity(t)
	h, err := libp2p.New(
		libp2p.Identity(me.key),
		libp2p.ListenAddrStrings("/ip4/127.0.0.1/tcp/0"),
		libp2p.DisableRelay(),
		libp2p.DisableMetrics(),
		libp2p.ForceReachabilityPublic(),
		libp2p.DisableIdentifyAddressDiscovery(),
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	cfg := DefaultConfig()
	cfg.Server = true
	for _, s := range seeds {
		cfg.Seeds.Bootstrap = append(cfg.Seeds.Bootstrap, s.addr())
	}
	reg := prometheus.NewRegistry()
	n := &node{identity: me, host: h}
	s, err := New(cfg, Deps{
		Env:  env.Env{Metrics: reg, Limits: limits.NewRegistry(reg)},
		Host: h, Key: me.key, Roots: roots, Filter: &filter{}, PrivateNetwork: private,
		IgnorePeer: func(p peer.ID) bool { x := n.ignored.Load(); return x != nil && *x == p },
	})
	if err != nil {
		t.Fatal(err)
	}
	n.Service = s
	ctx, cancel := context.WithCancel(t.Context())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- s.Run(ctx, func() { close(ready) }) }()
	n.stop = sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() {
		if err := n.stop(); err != nil {
			t.Error(err)
		}
	})
	<-ready
	return n
}

// startNetwork starts n nodes, all of which know the first.
func startNetwork(t *testing.T, n int) []*node {
	t.Helper()
	return startNetworkIn(t, false, n)
}

// startNetworkIn starts a network that is private or not.
func startNetworkIn(t *testing.T, private bool, n int) []*node {
	t.Helper()
	nodes := []*node{startIn(t, private, nil)}
	for range n - 1 {
		nodes = append(nodes, startIn(t, private, nil, nodes[0]))
	}
	testkit.Eventually(t, "the seed's table", func() bool { return nodes[0].TableSize() == n-1 })
	for _, x := range nodes {
		testkit.Eventually(t, "a table", func() bool { return x.TableSize() > 0 })
	}
	return nodes
}

func collect(seq iter.Seq2[record.Provider, error]) (ps []record.Provider, err error) {
	for p, e := range seq {
		if e != nil {
			return ps, e
		}
		ps = append(ps, p)
	}
	return ps, nil
}

// TestNetwork: what one node provides another finds, and neither knew the other.
func TestNetwork(t *testing.T) {
	nodes := startNetwork(t, 5)
	b, e := nodes[1], nodes[4]
	x := root("an object")
	if acks, err := b.Provide(t.Context(), x, root("and another")); err != nil || acks < 2 {
		t.Fatalf("%d acknowledgements, %v", acks, err)
	}
	found, err := collect(e.FindProviders(t.Context(), x, FindOptions{Limit: 0}))
	if err != nil || len(found) != 1 {
		t.Fatalf("found %v, %v", found, err)
	}
	p := found[0]
	if p.ID != b.id || len(p.Addrs) == 0 || p.Via == "" && e.store.len() == 0 {
		t.Errorf("found %+v", p)
	}
	if life := time.Until(p.NotAfter); life < 23*time.Hour || life > 24*time.Hour {
		t.Errorf("the record lives %s", life)
	}
	// The addresses are good for a connection, by id alone.
	if err := e.host.Connect(t.Context(), peer.AddrInfo{ID: b.id}); err != nil {
		t.Error(err)
	}
	if own, err := collect(b.FindProviders(t.Context(), x, FindOptions{Limit: 0})); err != nil || len(own) != 0 {
		t.Errorf("the provider finds itself: %v, %v", own, err)
	}
	if none, err := collect(e.FindProviders(t.Context(), root("nobody has this"), FindOptions{Limit: 0})); err != nil ||
		len(none) != 0 {
		t.Errorf("found %v, %v", none, err)
	}
	// Everybody: the limit holds, and nobody comes twice.
	for _, n := range nodes {
		if _, err := n.Provide(t.Context(), x); err != nil {
			t.Fatal(err)
		}
	}
	for limit, want := range map[int]int{0: 4, 2: 2, 4: 4, 9: 4} {
		found, err := collect(e.FindProviders(t.Context(), x, FindOptions{Limit: limit}))
		ids := map[peer.ID]bool{}
		for _, p := range found {
			ids[p.ID] = true
		}
		if err != nil || len(found) != want || len(ids) != want || ids[e.id] {
			t.Errorf("limit %d: found %v, %v", limit, found, err)
		}
	}
	// A loop that ends early leaves nothing behind; TestMain looks.
	for range e.FindProviders(t.Context(), x, FindOptions{Limit: 0}) {
		break
	}
	if len(nodes[0].Table()) != 4 {
		t.Errorf("the seed's table is %v", nodes[0].Table())
	}
	seeds := e.Seeds()
	if len(seeds) != 1 || !seeds[0].Connected || seeds[0].ID != nodes[0].id || seeds[0].LastSuccess.IsZero() {
		t.Errorf("the seeds are %+v", seeds)
	}
}

// TestIgnoredProviderIsNotFound: a node does not find a provider while it ignores that one, whoever has the record.
func TestIgnoredProviderIsNotFound(t *testing.T) {
	nodes := startNetwork(t, 4)
	b, e := nodes[1], nodes[3]
	x := root("an object")
	if acks, err := b.Provide(t.Context(), x); err != nil || acks == 0 {
		t.Fatalf("%d acknowledgements, %v", acks, err)
	}
	for _, is := range []bool{true, false} {
		e.ignored.Store(nil)
		if is {
			e.ignored.Store(&b.id)
		}
		found, err := collect(e.FindProviders(t.Context(), x, FindOptions{}))
		if err != nil || (len(found) == 0) != is {
			t.Errorf("ignored %t: found %v, %v", is, found, err)
		}
	}
}

// TestFresh: a record that is held here satisfies, unless the network is to be
// asked.
func TestFresh(t *testing.T) {
	nodes := startNetwork(t, 3)
	x := root("an object")
	// a busy machine may take longer than one call may
	testkit.Eventually(t, "both others have the record", func() bool {
		acks, err := nodes[1].Provide(t.Context(), x)
		if err != nil {
			t.Fatal(err)
		}
		return acks == 2
	})
	for _, fresh := range []bool{false, true} {
		var trace probes.Trace
		found, err := collect(nodes[2].FindProviders(t.Context(), x,
			FindOptions{Limit: 1, Fresh: fresh, Trace: &trace}))
		if err != nil || len(found) != 1 || found[0].ID != nodes[1].id {
			t.Fatalf("fresh %t: found %v, %v", fresh, found, err)
		}
		if asked := len(trace.Steps) > 0; asked != fresh || (found[0].Via != "") != fresh {
			t.Errorf("fresh %t: by way of %q, %+v", fresh, found[0].Via, trace)
		}
	}
}

// TestDeadPeers: peers that died, and one that accepts and never answers, do
// not keep a lookup from its end.
func TestDeadPeers(t *testing.T) {
	nodes := startNetwork(t, 6)
	x := root("an object")
	if _, err := nodes[1].Provide(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	for _, dead := range nodes[2:4] {
		if err := dead.stop(); err != nil {
			t.Fatal(err)
		}
		if err := dead.host.Close(); err != nil {
			t.Fatal(err)
		}
	}
	silent := nodes[4]
	silent.host.SetStreamHandler(ProviderID, func(s network.Stream) {
		defer s.Close()
		buf := make([]byte, 1)
		for {
			if _, err := s.Read(buf); err != nil && !errors.Is(err, context.Canceled) {
				if _, ok := errorAs[*network.StreamError](err); ok || s.Conn().IsClosed() {
					return
				}
				time.Sleep(time.Millisecond)
			}
		}
	})
	found, err := collect(nodes[5].FindProviders(t.Context(), x, FindOptions{Limit: 0}))
	if len(found) != 1 || found[0].ID != nodes[1].id {
		t.Errorf("found %v, %v", found, err)
	}
	if o := status.Of(err); o != status.OK && o != status.Timeout {
		t.Errorf("the lookup ended with %v", err)
	}
}

func errorAs[T error](err error) (T, bool) {
	var target T
	ok := errors.As(err, &target)
	return target, ok
}

// TestRepublishOnTheNetwork: what Roots names is announced by itself, and so is
// what is queued.
func TestRepublishOnTheNetwork(t *testing.T) {
	seed := startNode(t, nil)
	x, y := root("x"), root("y")
	n := startNode(t, func() iter.Seq[b3.Root] { return slices.Values([]b3.Root{x}) }, seed)
	if err := n.Announce(y); err != nil {
		t.Fatal(err)
	}
	for _, r := range []b3.Root{x, y} {
		testkit.Eventually(t, "an announcement", func() bool {
			found, err := collect(seed.FindProviders(t.Context(), r, FindOptions{Limit: 1}))
			return err == nil && len(found) == 1 && found[0].ID == n.id
		})
	}
}

// TestTableRefills: a failed call does not cost a connected peer its place, and
// a table that is empty all the same is filled from the connections.
func TestTableRefills(t *testing.T) {
	seed := startNode(t, nil)
	n := startNode(t, nil, seed)
	testkit.Eventually(t, "a table", func() bool { return n.TableSize() == 1 })
	n.table.Failed(t.Context(), seed.id)
	if n.TableSize() != 1 {
		t.Error("a connected peer was dropped at its first failure")
	}
	for range 3 {
		n.table.Failed(t.Context(), seed.id) // it goes
	}
	testkit.Eventually(t, "the peer to come back", func() bool { return n.TableSize() == 1 })
	if err := seed.host.Close(); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the end of the connection", func() bool { return len(n.host.Network().Conns()) == 0 })
	n.table.Failed(t.Context(), seed.id)
	testkit.Eventually(t, "a peer that is gone to go", func() bool { return n.TableSize() == 0 })
}

// TestAlone: without a network the node says so at once, and keeps its record.
func TestAlone(t *testing.T) {
	n := startNode(t, nil)
	if _, err := collect(n.FindProviders(t.Context(), root("x"), FindOptions{Limit: 1})); status.Of(
		err,
	) != status.NoBootstrap {
		t.Errorf("find: %v", err)
	}
	if acks, err := n.Provide(t.Context(), root("x"), root("y")); acks != 0 || status.Of(err) != status.NoBootstrap {
		t.Errorf("provide: %d, %v", acks, err)
	}
	if n.store.len() != 2 {
		t.Errorf("%d records are held", n.store.len())
	}
}

// TestLifecycle: nothing works before Run and after it, a second Run works, and
// the handlers are gone when it ends.
func TestLifecycle(t *testing.T) {
	n := startNode(t, nil)
	if err := n.stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Provide(t.Context(), root("x")); status.Of(err) != status.NotReady {
		t.Errorf("provide: %v", err)
	}
	if _, err := collect(n.FindProviders(t.Context(), root("x"), FindOptions{Limit: 1})); status.Of(
		err,
	) != status.NotReady {
		t.Errorf("find: %v", err)
	}
	if n.TableSize() != 0 || len(n.Table()) != 0 {
		t.Error("a table without a service")
	}
	for _, id := range n.host.Mux().Protocols() {
		if id == KadID || id == ProviderID {
			t.Errorf("%s is still served", id)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := n.Run(ctx, cancel); err != nil {
		t.Errorf("a second run: %v", err)
	}
}

func TestNewRefusals(t *testing.T) {
	n := startNode(t, nil)
	for name, d := range map[string]Deps{
		"no host":     {Key: n.key, Filter: &filter{}},
		"no key":      {Host: n.host, Filter: &filter{}},
		"no filter":   {Host: n.host, Key: n.key},
		"another key": {Host: n.host, Key: newIdentity(t).key, Filter: &filter{}},
	} {
		if _, err := New(DefaultConfig(), d); status.Of(err) != status.BadRequest {
			t.Errorf("%s: %v", name, err)
		}
	}
	cfg := DefaultConfig()
	cfg.K = 0
	if _, err := New(cfg, Deps{Host: n.host, Key: n.key, Filter: &filter{}}); status.Of(err) != status.BadRequest {
		t.Errorf("a bad configuration: %v", err)
	}
}
