package dht

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	kaddht "github.com/libp2p/go-libp2p-kad-dht"
	pb "github.com/libp2p/go-libp2p-kad-dht/pb"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/peerstore"
	"github.com/libp2p/go-libp2p/core/protocol"

	"allium/protocols/b3"
	"allium/protocols/dht/probes"
	"allium/protocols/kad"
)

// measured is what lookups of one kind took, in virtual time.
type measured struct {
	name   string
	took   []time.Duration
	probes int
	failed int
}

func (m *measured) quantile(q float64) time.Duration {
	slices.Sort(m.took)
	return m.took[int(q*float64(len(m.took)-1))]
}

func (m *measured) perLookup() float64 { return float64(m.probes) / float64(len(m.took)) }

func (m *measured) String() string {
	return fmt.Sprintf(
		"%-28s p50 %4d ms  p90 %4d ms  p99 %4d ms  %5.1f probes  %d failed of %d",
		m.name,
		m.quantile(
			.5,
		).Milliseconds(),
		m.quantile(.9).Milliseconds(),
		m.quantile(.99).Milliseconds(),
		m.perLookup(),
		m.failed,
		len(m.took),
	)
}

// scenario is a network in which a share of the hosts are black holes: they
// accept every stream and never answer. Of the hosts the last ones may be Sybils,
// whose addresses are those of a few networks.
type scenario struct {
	hosts, seekers, objects, lookups int
	holes                            float64
	sybils, sybilNets                int
	change                           func(*Config) // nil: nothing
}

// place is one host of a scenario: what a node serves and asks with, without
// the tasks that would change the routing tables while something is measured.
type place struct {
	*Service
	kad *kaddht.IpfsDHT
}

// build makes the network: each host has the routing table that it would have
// after a while, up to k random peers in each bucket, with the round trips it
// would have measured.
func (sc scenario) build(
	t testing.TB,
	newKad func(*Service) (*kaddht.IpfsDHT, error),
) (sn *simNet, places []place, stop func()) {
	sn = newSimNet(t, sc.hosts-sc.sybils)
	for i := range sc.sybils {
		sn.add(func(identity) net.IP { return net.IPv4(66, byte(i%sc.sybilNets), byte(1+i/sc.sybilNets), 1) })
	}
	ctx, cancel := context.WithCancel(t.Context())
	var tables sync.WaitGroup
	rng := rand.New(rand.NewPCG(5, 6))
	for i, h := range sn.Hosts {
		cfg := DefaultConfig()
		cfg.Server = true
		cfg.Guard.PeerRate, cfg.Guard.Rate = 1e6, 1e6
		if sc.change != nil {
			sc.change(&cfg)
		}
		s, err := New(cfg, Deps{Host: h, Key: sn.ids[i].key, Filter: &filter{}})
		if err != nil {
			t.Fatal(err)
		}
		for _, run := range []func(context.Context, func()) error{s.table.Run, s.guard.Run} {
			up := make(chan struct{})
			tables.Go(func() { _ = run(ctx, func() { close(up) }) })
			<-up
		}
		p := place{Service: s}
		if p.kad, err = newKad(s); err != nil {
			t.Fatal(err)
		}
		s.serve(ctx, p.kad)
		if sc.sybils > 0 {
			tables.Go(func() { _ = s.dialback.Run(ctx, func() {}) })
		}
		places = append(places, p)
	}
	for i, p := range places {
		buckets := map[int]int{}
		for _, j := range rng.Perm(sc.hosts) {
			q := sn.Hosts[j].ID()
			b := kad.Hash([]byte(p.self)).CommonPrefix(kad.Hash([]byte(q)))
			if buckets[b]++; i == j || buckets[b] > p.cfg.Load().K {
				continue
			}
			sn.Hosts[i].Peerstore().AddAddrs(q, sn.Hosts[j].Addrs(), peerstore.PermanentAddrTTL)
			p.table.Seen(ctx, q, rtt(sn.Socket(i), sn.Socket(j)))
			if _, err := p.kad.RoutingTable().TryAddPeer(q, true, false); err != nil {
				t.Fatal(err)
			}
		}
	}
	time.Sleep(time.Second) // the tables' writers are at work
	return sn, places, func() {
		cancel()
		for _, p := range places {
			p.lookups.current().lookups.Wait()
			p.lookups.current().server.close()
			_ = p.kad.Close()
		}
		sn.close()
		tables.Wait()
	}
}

// publish places objects, turns a share of the hosts into black holes, and
// connects the seekers to the peers of their tables.
func (sc scenario) publish(
	t testing.TB,
	sn *simNet,
	places []place,
	provide func(place, b3.Root) error,
) (seekers []place, roots []b3.Root, owner map[b3.Root]peer.ID) {
	healthy := places[:sc.hosts-int(float64(sc.hosts)*sc.holes)]
	rng := rand.New(rand.NewPCG(1, 2))
	owner = map[b3.Root]peer.ID{}
	for i := range sc.objects {
		r, p := root(fmt.Sprint("object ", i)), healthy[rng.IntN(len(healthy))]
		roots, owner[r] = append(roots, r), p.self
		if err := provide(p, r); err != nil {
			t.Fatal(err)
		}
	}
	seekers = healthy[:sc.seekers]
	for _, s := range seekers {
		for _, h := range sn.Hosts {
			if err := s.deps.Host.Connect(t.Context(), *host.InfoFromHost(h)); h.ID() != s.self && err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := len(healthy); i < sc.hosts; i++ {
		sn.hole(i)
	}
	return seekers, roots, owner
}

// draw gives the same lookups to everyone that is measured.
func (sc scenario) draw(
	seekers []place,
	roots []b3.Root,
	owner map[b3.Root]peer.ID,
	each func(s place, r b3.Root, key []byte),
) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range sc.lookups {
		s, r := seekers[rng.IntN(len(seekers))], roots[rng.IntN(len(roots))]
		for owner[r] == s.self {
			r = roots[rng.IntN(len(roots))]
		}
		each(s, r, []byte(fmt.Sprint("key ", rng.Uint64())))
	}
}

// way is one way to look something up.
type way struct {
	name   string
	change func(*Config)
}

// play measures lookups of providers and of nodes, one way after the other in
// the same network.
func (sc scenario) play(t testing.TB, ways ...way) (providers, nodes []*measured) {
	sn, places, stop := sc.build(t, (*Service).newKad)
	defer stop()
	seekers, roots, owner := sc.publish(t, sn, places, func(p place, r b3.Root) error {
		_, err := p.Provide(t.Context(), r)
		return err
	})
	for _, w := range ways {
		providers, nodes = append(providers, &measured{name: w.name}), append(nodes, &measured{name: w.name})
	}
	turn := 0
	sc.draw(seekers, roots, owner, func(s place, r b3.Root, key []byte) {
		turn++
		for i := range ways { // each comes first as often as last: later ones know more
			w := (i + turn) % len(ways)
			undo := s.as(ways[w].change)
			s.store.forget(r)
			var trace probes.Trace
			start, found := time.Now(), false
			for _, err := range s.FindProviders(t.Context(), r, FindOptions{Limit: 1, Trace: &trace}) {
				found = found || err == nil
			}
			providers[w].add(time.Since(start), trace.Probes, found)

			start = time.Now()
			_, res, err := s.walk.closest(t.Context(), opRefresh, s.cfg.Load().findConfig(), key)
			nodes[w].add(time.Since(start), res.Probes, err == nil)
			undo()
		}
	})
	return providers, nodes
}

// as has a service look things up with other settings until undo.
func (s place) as(change func(*Config)) (undo func()) {
	before, fixed := s.cfg.Load(), s.lookups.current().engine.fixedHedge
	cfg := *before
	change(&cfg)
	s.cfg.Store(&cfg)
	s.lookups.current().engine.fixedHedge = cfg.HedgeFixed
	return func() { s.cfg.Store(before); s.lookups.current().engine.fixedHedge = fixed }
}

func (m *measured) add(took time.Duration, probes int, ok bool) {
	m.took = append(m.took, took)
	m.probes += probes
	if !ok {
		m.failed++
	}
}

// forget drops the records of one object: a lookup then has to ask.
func (p *providerStore) forget(r b3.Root) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.keys[r]) > 0 {
		p.drop(p.keys[r][0])
	}
}

// counting counts the calls of kad-dht's own queries.
type counting struct {
	*kadSender
	n *atomic.Int64
}

func (c counting) SendRequest(ctx context.Context, p peer.ID, m *pb.Message) (*pb.Message, error) {
	c.n.Add(1)
	return c.kadSender.SendRequest(ctx, p, m)
}

// playStock measures kad-dht's own queries at α = 10 with our sender.
func (sc scenario) playStock(t testing.TB) (providers, nodes *measured) {
	var calls atomic.Int64
	sn, places, stop := sc.build(t, func(s *Service) (*kaddht.IpfsDHT, error) {
		return kaddht.New(
			s.deps.Host,
			kaddht.ProtocolPrefix(Prefix),
			kaddht.Mode(kaddht.ModeServer),
			kaddht.BucketSize(s.cfg.Load().K),
			kaddht.Concurrency(10),
			kaddht.DisableValues(),
			kaddht.WithCustomMessageSender(func(host.Host, []protocol.ID) pb.MessageSenderWithDisconnect {
				return counting{s.walk.sender, &calls}
			}),
		)
	})
	defer stop()
	seekers, roots, owner := sc.publish(t, sn, places, func(p place, r b3.Root) error {
		return p.kad.Provide(t.Context(), r.CID(), true)
	})
	providers, nodes = &measured{name: "kad-dht α=10"}, &measured{name: "kad-dht α=10"}
	sc.draw(seekers, roots, owner, func(s place, r b3.Root, key []byte) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		before, start := calls.Load(), time.Now()
		var first time.Duration
		for range s.kad.FindProvidersAsync(ctx, r.CID(), 1) {
			first = time.Since(start)
		}
		if calls.Load() > before {
			providers.add(cmp.Or(first, time.Since(start)), int(calls.Load()-before), first > 0)
		}

		before, start = calls.Load(), time.Now()
		_, err := s.kad.GetClosestPeers(ctx, string(key))
		nodes.add(time.Since(start), int(calls.Load()-before), err == nil)
	})
	return providers, nodes
}

// TestHedging measures lookups among black holes, in virtual time. `make bench`
// does it with 200 hosts and prints latency against probes for other settings,
// and for kad-dht's own queries.
func TestHedging(t *testing.T) {
	if testing.Short() {
		t.Skip("10 s without the race detector")
	}
	sc := scenario{hosts: 50, seekers: 5, objects: 40, lookups: 200, holes: 0.2}
	off := func(c *Config) { c.Beta = 0 }
	fixed := func(after time.Duration) func(*Config) {
		return func(c *Config) { c.HedgeFixed, c.HedgeAfter = true, after }
	}
	ways := []way{{"α=3 β=2 adaptive", func(*Config) {}}, {"α=3, no hedging", off}}
	hosts := simHosts(t, sc.hosts)
	full := hosts > sc.hosts
	if full {
		sc = scenario{hosts: hosts, seekers: 6, objects: 100, lookups: 300, holes: 0.2}
		for _, ms := range []time.Duration{75, 250} {
			ways = append(ways, way{fmt.Sprintf("α=3 β=2 fixed %d ms", ms), fixed(ms * time.Millisecond)})
		}
		ways = append(ways, way{"α=5 β=3 adaptive", func(c *Config) { c.Alpha, c.Beta = 5, 3 }})
	}
	var providers, nodes []*measured
	synctest.Test(t, func(t *testing.T) { providers, nodes = sc.play(t, ways...) })
	if full {
		synctest.Test(t, func(t *testing.T) {
			p, n := sc.playStock(t)
			providers, nodes = append(providers, p), append(nodes, n)
		})
	}
	for _, m := range providers {
		t.Log("find providers:", m)
	}
	for _, m := range nodes {
		t.Log("find node:     ", m)
	}
	find, without, node := providers[0], providers[1], nodes[0]
	if p99 := find.quantile(.99); p99 > 350*time.Millisecond || find.failed > 0 || find.perLookup() > 4.5 {
		t.Errorf("finding providers: p99 %s, %d failed, %.1f probes", p99, find.failed, find.perLookup())
	}
	slowest := 700 * time.Millisecond
	if !full { // half of those that are alive have to answer
		slowest = time.Second
	}
	if p99 := node.quantile(.99); p99 > slowest {
		t.Errorf("finding the closest: p99 %s", p99)
	}
	// The order in which the closest are asked is random: 200 lookups are few.
	worse := 1.15
	if full {
		worse = 1.05
	}
	if on, off := find.quantile(.5), without.quantile(.5); float64(on) > worse*float64(off) {
		t.Errorf("hedging makes the median %s, it is %s without", on, off)
	}
	if full {
		stock := providers[len(providers)-1]
		if p50, p99 := stock.quantile(.5), stock.quantile(.99); float64(find.quantile(.5)) > 1.5*float64(p50) ||
			float64(find.quantile(.99)) > 1.8*float64(p99) || find.perLookup() > .45*stock.perLookup() {
			t.Errorf("against kad-dht's own query at α = 10 (p50 %s, p99 %s, %.1f probes)", p50, p99, stock.perLookup())
		}
	}
}
