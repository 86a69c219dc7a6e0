package hints

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"allium/internal/env"
	"allium/internal/testkit/simnet"

	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/limits"
	"allium/protocols/gossip"
)

// simNet is a network of nodes in virtual time, 50 ms round trip between any
// two: use it in a synctest bubble.
type simNet struct {
	*simnet.Net
	t     testing.TB
	ids   []identity
	nodes []*node
}

// node is announcements over gossip on one host.
type node struct {
	*Service
	gossip *gossip.Service
	reg    *prometheus.Registry
	stop   func()
}

// in runs f on n hosts, each connected to some others.
func in(t *testing.T, n int, f func(t *testing.T, sn *simNet)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		sn := newSimNet(t, n)
		defer sn.close()
		f(t, sn)
	})
}

func newSimNet(t testing.TB, n int) *simNet {
	t.Helper()
	sn := &simNet{Net: simnet.New(t, func(string, string) time.Duration { return 25 * time.Millisecond }), t: t}
	for i := range n {
		me := fixedIdentity(t, i+1)
		sn.Add(me.key, fmt.Sprintf("20.%d.0.1", i))
		sn.ids = append(sn.ids, me)
	}
	sn.Start()
	return sn
}

// start runs a node on every host; degree connections are made by each.
func (sn *simNet) start(degree int, change func(*Config, *gossip.Config)) {
	sn.t.Helper()
	for i := range sn.Hosts {
		sn.nodes = append(sn.nodes, sn.run(i, change))
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range sn.Hosts {
		sn.connect(i, (i+1)%len(sn.Hosts))
		for range degree - 1 {
			sn.connect(i, rng.IntN(len(sn.Hosts)))
		}
	}
	time.Sleep(4 * time.Second) // meshes form
}

func (sn *simNet) connect(i, j int) {
	sn.t.Helper()
	if i == j {
		return
	}
	sn.Connect(i, j)
}

func (sn *simNet) run(i int, change func(*Config, *gossip.Config)) *node {
	sn.t.Helper()
	n := &node{reg: prometheus.NewRegistry()}
	cfg, gcfg := DefaultConfig(), gossip.DefaultConfig()
	if change != nil {
		change(&cfg, &gcfg)
	}
	var err error
	n.Service, err = New(cfg, Deps{
		Env: env.Env{Metrics: n.reg, Limits: limits.NewRegistry(n.reg)}, Host: sn.Hosts[i], Key: sn.ids[i].key,
		Publish: func(ctx context.Context, data []byte) error { return n.gossip.Publish(ctx, Topic, data) },
	})
	if err == nil {
		n.gossip, err = gossip.New(gcfg,
			gossip.Deps{Env: env.Env{Metrics: n.reg}, Host: sn.Hosts[i], Topics: []gossip.Topic{{
				Name:     Topic,
				Validate: func(_ context.Context, m gossip.Message) error { return n.Validate(m.From, m.Data) },
				Handle: func(
					ctx context.Context, m gossip.Message,
				) {
					n.Handle(ctx, m.Via, m.Data)
				},
			}}})
	}
	if err != nil {
		sn.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(sn.t.Context())
	var running sync.WaitGroup
	for _, run := range []func(context.Context, func()) error{n.Service.Run, n.gossip.Run} {
		ready := make(chan struct{})
		running.Go(func() {
			if err := run(ctx, func() { close(ready) }); err != nil {
				sn.t.Error(err)
			}
		})
		<-ready
	}
	n.stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	return n
}

func (sn *simNet) close() {
	var wg sync.WaitGroup
	for _, n := range sn.nodes {
		wg.Go(n.stop)
	}
	wg.Wait()
	sn.Close()
}

// missing is how many of the objects from to to the nodes do not know, together.
func (sn *simNet) missing(nodes []*node, from, to int) (n int) {
	for _, node := range nodes {
		node.memory.mu.Lock()
		for i := from; i < to; i++ {
			if len(node.memory.roots[root(i)]) == 0 {
				n++
			}
		}
		node.memory.mu.Unlock()
	}
	return n
}

// within waits until ok, at most for d, and returns how long it took.
func within(t testing.TB, d time.Duration, what string, ok func() bool) time.Duration {
	t.Helper()
	start := time.Now()
	for !ok() {
		if time.Since(start) > d {
			t.Errorf("not within %s: %s", d, what)
			return d
		}
		time.Sleep(50 * time.Millisecond)
	}
	return time.Since(start)
}

// value is the sum of a metric over the nodes; label and its value narrow it
// down.
func (sn *simNet) value(name string, label ...string) (sum float64) {
	sn.t.Helper()
	for _, n := range sn.nodes {
		families, err := n.reg.Gather()
		if err != nil {
			sn.t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() != name {
				continue
			}
			for _, m := range f.GetMetric() {
				match := len(label) == 0
				for _, l := range m.GetLabel() {
					match = match || l.GetName() == label[0] && l.GetValue() == label[1]
				}
				if match {
					sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() +
						float64(m.GetHistogram().GetSampleCount())
				}
			}
		}
	}
	return sum
}
