package gossip

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"allium/internal/env"
	"allium/internal/testkit/simnet"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/limits"
)

const (
	testTopic = "/allium/1/test"
	roundTrip = 50 * time.Millisecond
)

// simNet is a network of hosts in virtual time: use it in a synctest bubble.
// Every host has an address of its own, and the way between any two of them
// takes half a roundTrip.
type simNet struct {
	*simnet.Net
	t testing.TB
}

func newSimNet(t testing.TB, n int) *simNet {
	t.Helper()
	sn := &simNet{simnet.New(t, func(string, string) time.Duration { return roundTrip / 2 }), t}
	for i := range n {
		var seed [32]byte
		binary.BigEndian.PutUint64(seed[:], uint64(i+1))
		key, _, err := crypto.GenerateEd25519Key(rand.NewChaCha8(seed))
		if err != nil {
			t.Fatal(err)
		}
		sn.Add(key, fmt.Sprintf("20.%d.0.1", i))
	}
	sn.Start()
	return sn
}

// weave connects each host to the next and to others, degree connections made
// by each, the same in every run.
func (sn *simNet) weave(degree int) {
	sn.t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	n := len(sn.Hosts)
	for i := range n {
		sn.Connect(i, (i+1)%n)
		for range degree - 1 {
			if j := rng.IntN(n); j != i {
				sn.Connect(i, j)
			}
		}
	}
}

// node is a service on a host and the messages that it has handled.
type node struct {
	*Service
	host host.Host
	reg  *prometheus.Registry
	stop func()

	mu  sync.Mutex
	got map[string]time.Time // data → when
	n   atomic.Int64         // handled, repetitions included
}

// has reports whether a message with data was handled, and when.
func (n *node) has(data string) (time.Time, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	at, ok := n.got[data]
	return at, ok
}

// start runs a service on host h with the topic testTopic, whose validator accepts every message unless
// change replaces it, and with the other topics.
func start(t testing.TB, h host.Host, change func(*Config, *Topic), others ...Topic) *node {
	t.Helper()
	n := &node{host: h, reg: prometheus.NewRegistry(), got: map[string]time.Time{}}
	cfg := DefaultConfig()
	topic := Topic{
		Name:     testTopic,
		Validate: func(context.Context, Message) error { return nil },
		Handle: func(_ context.Context, m Message) {
			n.n.Add(1)
			n.mu.Lock()
			defer n.mu.Unlock()
			n.got[string(m.Data)] = time.Now()
		},
	}
	if change != nil {
		change(&cfg, &topic)
	}
	var err error
	n.Service, err = New(
		cfg,
		Deps{
			Env:  env.Env{Metrics: n.reg, Limits: limits.NewRegistry(n.reg)},
			Host: h, Topics: append([]Topic{topic}, others...),
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	n.run(t)
	return n
}

// run runs the service until stop is called. It may be called again after stop.
func (n *node) run(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- n.Run(ctx, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-done:
		cancel()
		t.Fatal(err)
	}
	n.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// startAll runs a service on every host.
func (sn *simNet) startAll(change func(*Config, *Topic)) []*node {
	sn.t.Helper()
	nodes := make([]*node, len(sn.Hosts))
	for i, h := range sn.Hosts {
		nodes[i] = start(sn.t, h, change)
	}
	return nodes
}

func stopAll(nodes []*node) {
	var wg sync.WaitGroup
	for _, n := range nodes {
		wg.Go(n.stop)
	}
	wg.Wait()
}

// value returns the value of a metric, summed over the series with the given label and value, or over
// all series.
func (n *node) value(t testing.TB, name string, label ...string) float64 {
	t.Helper()
	families, err := n.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		var sum float64
		for _, m := range f.GetMetric() {
			match := len(label) == 0
			for _, l := range m.GetLabel() {
				match = match || l.GetName() == label[0] && l.GetValue() == label[1]
			}
			if match {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
		return sum
	}
	t.Fatalf("no metric %s", name)
	return 0
}

func (n *node) drops(t testing.TB, reason string) float64 {
	return n.value(t, "gossip_dropped_total", "reason", reason)
}

// in runs f in virtual time on a network of n hosts.
func in(t *testing.T, n int, f func(t *testing.T, sn *simNet)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		sn := newSimNet(t, n)
		defer sn.Close()
		f(t, sn)
	})
}

// balance checks that every message that a node received is counted as delivered, duplicate or
// dropped. The caller waits until no message is in flight.
func (n *node) balance(t *testing.T) {
	t.Helper()
	sum := n.value(t, "gossip_duplicates_total") + n.value(t, "gossip_delivered_total")
	for _, reason := range dropReasons {
		switch reason {
		case dropPeerQueue, dropPublish: // were to be sent
		default:
			sum += n.drops(t, reason)
		}
	}
	if rx := n.value(t, "gossip_frames_total", "dir", "rx"); rx != sum {
		t.Errorf("%g frames came, %g are accounted for", rx, sum)
	}
	if h := float64(n.n.Load()); h != n.value(t, "gossip_delivered_total") {
		t.Errorf("%g were handled, %g counted", h, n.value(t, "gossip_delivered_total"))
	}
}

// balanceAll checks each node, and that the nodes received as many messages as they sent.
func balanceAll(t *testing.T, nodes []*node) {
	t.Helper()
	var tx, rx float64
	for _, n := range nodes {
		n.balance(t)
		tx += n.value(t, "gossip_frames_total", "dir", "tx")
		rx += n.value(t, "gossip_frames_total", "dir", "rx")
	}
	if tx != rx {
		t.Errorf("%g frames were sent, %g came", tx, rx)
	}
}
