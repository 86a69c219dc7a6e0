package dht

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"allium/internal/testkit/simnet"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/p2p/net/conngater"
)

// simNet is a network of hosts in virtual time: use it in a synctest bubble.
// Every host has a /16 of its own. Each pair of hosts has a round-trip time of its own, lognormal with the
// median medianRTT, the same in every run.
type simNet struct {
	*simnet.Net
	t   testing.TB
	ids []identity

	dials []*dialCount // by each host

	done chan struct{} // closed by close
	cut  sync.Map      // addresses nothing reaches any more
	loss atomic.Int64  // percent of packets that are lost
}

const medianRTT = 60 * time.Millisecond

// rtt is lognormal with σ 0.4: one in a hundred pairs is beyond 150 ms.
func rtt(a, b string) time.Duration {
	if a > b {
		a, b = b, a
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(a + "|" + b))
	rng := rand.New(rand.NewPCG(h.Sum64(), 1))
	return time.Duration(float64(medianRTT) * math.Exp(0.4*rng.NormFloat64()))
}

func newSimNet(t testing.TB, n int) *simNet {
	t.Helper()
	sn := &simNet{t: t, done: make(chan struct{})}
	var mu sync.Mutex
	lossy := rand.New(rand.NewPCG(1, 1))
	sn.Net = simnet.New(t, func(from, to string) time.Duration {
		_, cutFrom := sn.cut.Load(from)
		_, cutTo := sn.cut.Load(to)
		mu.Lock()
		lost := lossy.Int64N(100) < sn.loss.Load()
		mu.Unlock()
		if cutFrom || cutTo || lost {
			return simnet.Lost
		}
		return rtt(from, to) / 2
	})
	for range n {
		sn.add(nil)
	}
	sn.Start()
	return sn
}

// add makes another host and returns its index. Its identity is the same in
// every run; its address is at's, which nil puts in an IP group of its own:
// hosts that share one do not all get into a routing table.
func (sn *simNet) add(at func(identity) net.IP) int {
	sn.t.Helper()
	i := len(sn.Hosts)
	var seed [32]byte
	binary.BigEndian.PutUint64(seed[:], uint64(i))
	me := identityFrom(sn.t, rand.NewChaCha8(seed))
	ip := net.IPv4(byte(20+i/256), byte(i), 0, 1)
	if at != nil {
		ip = at(me)
	}
	gater, err := conngater.NewBasicConnectionGater(nil)
	if err != nil {
		sn.t.Fatal(err)
	}
	dials := &dialCount{BasicConnectionGater: gater}
	sn.Add(me.key, ip.String(), libp2p.ConnectionGater(dials))
	sn.ids, sn.dials = append(sn.ids, me), append(sn.dials, dials)
	return i
}

// dialCount counts the dials of a host, whoever asks for them.
type dialCount struct {
	*conngater.BasicConnectionGater
	atomic.Int64
}

// InterceptPeerDial implements connmgr.ConnectionGater.
func (d *dialCount) InterceptPeerDial(peer.ID) bool { d.Add(1); return true }

func (sn *simNet) close() {
	close(sn.done)
	sn.Close()
}

// addr is the multiaddr of a host with its id.
func (sn *simNet) addr(i int) string {
	return fmt.Sprintf("%s/p2p/%s", sn.Hosts[i].Addrs()[0], sn.Hosts[i].ID())
}

// vanish cuts a host off without a word.
func (sn *simNet) vanish(i int) { sn.cut.Store(sn.Socket(i), true) }

// back undoes vanish.
func (sn *simNet) back(i int) { sn.cut.Delete(sn.Socket(i)) }

// hole makes a host accept every stream of the DHT and never answer.
func (sn *simNet) hole(i int) {
	for _, id := range []protocol.ID{KadID, ProviderID} {
		sn.Hosts[i].SetStreamHandler(id, func(s network.Stream) {
			_, _ = io.Copy(io.Discard, s)
			select { // the other side gives up by a reset, which nobody is told while nothing is read
			case <-sn.done:
			case <-time.After(time.Minute):
			}
			_ = s.Reset()
		})
	}
}

// start runs a service on host i; the returned function stops it.
func (sn *simNet) start(i int, change func(*Config, *Deps)) (*Service, func()) {
	sn.t.Helper()
	cfg, deps := DefaultConfig(), Deps{Host: sn.Hosts[i], Key: sn.ids[i].key, Filter: &filter{}}
	cfg.Server = true
	if i > 0 {
		cfg.Seeds.Bootstrap = []string{sn.addr(0)}
	}
	if change != nil {
		change(&cfg, &deps)
	}
	s, err := New(cfg, deps)
	if err != nil {
		sn.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(sn.t.Context())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- s.Run(ctx, func() { close(ready) }) }()
	<-ready
	return s, sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			sn.t.Error(err)
		}
	})
}

// startAll runs a service on every host.
func (sn *simNet) startAll(change func(*Config, *Deps)) (services []*Service, stop func()) {
	var stops []func()
	for i := range sn.Hosts {
		s, stop := sn.start(i, change)
		services, stops = append(services, s), append(stops, stop)
	}
	return services, func() {
		var wg sync.WaitGroup
		for _, stop := range stops {
			wg.Go(stop)
		}
		wg.Wait()
	}
}
