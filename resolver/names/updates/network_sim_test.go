package updates

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"

	"allium/gateway/policy"
	"allium/internal/env"
	"allium/internal/testkit/simnet"
	"allium/protocols/dht"
	"allium/protocols/dht/probes"
	"allium/protocols/gossip"
	"allium/protocols/name"
	"allium/protocols/record"
	"allium/resolver/names/lookup"
)

// The network of the tests.
const (
	nodes     = 20
	roundTrip = 60 * time.Millisecond
	ttl       = 5 * time.Second // of names
	settled   = time.Minute     // until the tables and the mesh have formed
)

// network is nodes with a DHT, gossip and a resolver of names, in virtual time: use it in a synctest
// bubble.
type network struct {
	*simnet.Net
	t     *testing.T
	nodes []*node
	zone  crypto.PrivKey

	away sync.Map     // sockets that nothing reaches
	loss atomic.Int64 // percent of packets that are lost
}

// node is one node. It knows names as a node of the composition root does.
type node struct {
	dht     *dht.Service
	gossip  *gossip.Service
	updates *Updates
	names   *lookup.Names
	tasks   sync.WaitGroup
	ctx     context.Context
	stop    func()

	mu      sync.Mutex
	learned map[uint64]time.Time // when the record with a number came by gossip
}

// Context implements providers.Tasks.
func (n *node) Context() context.Context { return n.ctx }

// Go implements providers.Tasks.
func (n *node) Go(f func()) bool {
	n.tasks.Go(f)
	return true
}

func key(t testing.TB, i uint64) crypto.PrivKey {
	t.Helper()
	var seed [32]byte
	binary.BigEndian.PutUint64(seed[:], i)
	k, _, err := crypto.GenerateEd25519Key(rand.NewChaCha8(seed))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func newNetwork(t *testing.T, nodes int) *network {
	w := &network{t: t, zone: key(t, 1000)}
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(1, 1))
	w.Net = simnet.New(t, func(from, to string) time.Duration {
		_, noFrom := w.away.Load(from)
		_, noTo := w.away.Load(to)
		mu.Lock()
		lost := rng.Int64N(100) < w.loss.Load()
		mu.Unlock()
		if noFrom || noTo || lost {
			return simnet.Lost
		}
		return roundTrip / 2
	})
	for i := range nodes {
		w.Add(key(t, uint64(i)), fmt.Sprintf("20.%d.0.1", i))
	}
	w.Start()
	for i := range nodes {
		w.nodes = append(w.nodes, w.start(i))
	}
	time.Sleep(settled)
	return w
}

// close stops all nodes.
func (w *network) close() {
	var wg sync.WaitGroup
	for _, n := range w.nodes {
		wg.Go(n.stop)
	}
	wg.Wait()
	w.Close()
}

func (w *network) start(i int) *node {
	w.t.Helper()
	n := &node{learned: map[uint64]time.Time{}}
	n.updates = New(Deps{
		Env:  env.Env{Now: time.Now},
		Self: w.Hosts[i].ID(), HasPeers: func() bool { return n.gossip.Followers(Topic) > 0 },
		Publish: func(ctx context.Context, data []byte) error { return n.gossip.Publish(ctx, Topic, data) },
		Learned: n.learn,
	})
	cfg := dht.DefaultConfig()
	cfg.Server = true
	if i > 0 {
		cfg.Seeds.Bootstrap = []string{fmt.Sprintf("%s/p2p/%s", w.Hosts[0].Addrs()[0], w.Hosts[0].ID())}
	}
	var err error
	n.dht, err = dht.New(cfg, dht.Deps{Host: w.Hosts[i], Key: key(w.t, uint64(i)), Filter: policy.AllowAll{}})
	if err == nil {
		n.gossip, err = gossip.New(gossip.DefaultConfig(), gossip.Deps{Host: w.Hosts[i], Topics: []gossip.Topic{{
			Name:     Topic,
			Validate: func(_ context.Context, m gossip.Message) error { return n.updates.Validate(m.Via, m.Data) },
			Handle:   func(_ context.Context, m gossip.Message) { n.updates.Handle(m.Data) },
		}}})
	}
	if err != nil {
		w.t.Fatal(err)
	}
	n.names = lookup.New(lookup.Config{
		Deadline: 1200 * time.Millisecond, NegativeTTL: 2 * time.Second, Lookups: 64,
	}, lookup.Deps{Env: env.Env{Now: time.Now}, Finder: fromDHT{n.dht}, Seen: n.dht.Seen()})
	ctx, cancel := context.WithCancel(w.t.Context())
	n.ctx = ctx
	var services sync.WaitGroup
	for _, run := range []func(context.Context, func()) error{n.dht.Run, n.gossip.Run, n.updates.Run} {
		ready := make(chan struct{})
		services.Go(func() {
			if err := run(ctx, func() { close(ready) }); err != nil {
				w.t.Error(err)
			}
		})
		<-ready
	}
	n.stop = func() {
		cancel()
		services.Wait()
		n.tasks.Wait()
	}
	return n
}

// learn takes up a record that came by gossip.
func (n *node) learn(rec name.Signed) {
	n.dht.UpdateName(rec)
	n.names.Observe(rec, true)
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.learned[rec.Seq]; !ok {
		n.learned[rec.Seq] = time.Now()
	}
}

// learnedAt returns when a record came by gossip.
func (n *node) learnedAt(seq uint64) (time.Time, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	at, ok := n.learned[seq]
	return at, ok
}

// record returns a record of a label in the zone of the network, signed now.
func (w *network) record(label, value string) name.Signed {
	w.t.Helper()
	zone, err := name.ZoneOf(w.zone.GetPublic())
	if err != nil {
		w.t.Fatal(err)
	}
	l, err := name.ParseLabel(label)
	if err != nil {
		w.t.Fatal(err)
	}
	v, err := name.ParseValue(value)
	if err != nil {
		w.t.Fatal(err)
	}
	now := time.Now()
	rec, err := name.Sign(w.zone, name.Record{
		Name: name.Name{Label: l, Zone: zone}, Seq: uint64(now.UnixMilli()), Value: v, TTL: ttl,
		NotAfter: now.Add(name.DefaultLife).Truncate(time.Second).UTC(),
	}, now)
	if err != nil {
		w.t.Fatal(err)
	}
	return rec
}

// publish publishes a record on a node as ownnames does: everybody is told at once, beside the puts.
func (n *node) publish(ctx context.Context, rec name.Signed) error {
	n.names.Observe(rec, false)
	err := n.updates.Announce(ctx, rec)
	if _, put := n.dht.PublishName(ctx, rec); put != nil {
		return put
	}
	return err
}

// resolve resolves a name on a node.
func (n *node) resolve(ctx context.Context, what name.Name, opt lookup.Options) (lookup.Answer, error) {
	return n.names.Resolve(ctx, n, what, opt, nil)
}

// fromDHT finds names in a DHT alone.
type fromDHT struct{ dht *dht.Service }

// FindName implements lookup.Finder.
func (f fromDHT) FindName(
	ctx context.Context, n name.Name, fresh bool, t *probes.Trace,
) (name.Versions, record.Origin, error) {
	v, err := f.dht.FindName(ctx, n, fresh, t)
	return v, record.OriginDHT, err
}
