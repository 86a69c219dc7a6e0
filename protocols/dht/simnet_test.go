package dht

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/p2p/net/conngater"
	"github.com/libp2p/go-libp2p/x/simlibp2p"
	"github.com/marcopolo/simnet"
)

// simNet is a network of hosts in virtual time: use it in a synctest bubble.
// Every host has a /16 of its own. Each pair of hosts has a round-trip time of its own, lognormal with the
// median medianRTT, the same in every run.
type simNet struct {
	t     testing.TB
	net   *simnet.Simnet
	hosts []host.Host
	ids   []identity

	dials []*dialCount // by each host

	done chan struct{} // closed by close
	cut  sync.Map      // addresses nothing reaches any more
	side sync.Map      // address → side of a partition
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
	sn.net = &simnet.Simnet{Logger: slog.New(slog.DiscardHandler), LatencyFunc: func(p *simnet.Packet) time.Duration {
		from, to := p.From.String(), p.To.String()
		_, cutFrom := sn.cut.Load(from)
		_, cutTo := sn.cut.Load(to)
		a, _ := sn.side.Load(from)
		b, _ := sn.side.Load(to)
		mu.Lock()
		lost := lossy.Int64N(100) < sn.loss.Load()
		mu.Unlock()
		if cutFrom || cutTo || a != b || lost {
			return 24 * time.Hour
		}
		return rtt(from, to) / 2
	}}
	for range n {
		sn.add(nil)
	}
	sn.net.Start()
	return sn
}

// add makes another host and returns its index. Its identity is the same in
// every run; its address is at's, which nil puts in an IP group of its own:
// hosts that share one do not all get into a routing table.
func (sn *simNet) add(at func(identity) net.IP) int {
	sn.t.Helper()
	i := len(sn.hosts)
	var seed [32]byte
	binary.BigEndian.PutUint64(seed[:], uint64(i))
	me := identityFrom(sn.t, rand.NewChaCha8(seed))
	ip := net.IPv4(byte(20+i/256), byte(i), 0, 1)
	if at != nil {
		ip = at(me)
	}
	link := simnet.LinkSettings{BitsPerSecond: 100 * simlibp2p.OneMbps}
	gater, err := conngater.NewBasicConnectionGater(nil)
	if err != nil {
		sn.t.Fatal(err)
	}
	dials := &dialCount{BasicConnectionGater: gater}
	h, err := libp2p.New(libp2p.ConnectionGater(dials), libp2p.Identity(me.key), libp2p.ListenAddrStrings(fmt.Sprintf("/ip4/%s/udp/8000/quic-v1", ip)),
		simlibp2p.QUICSimnet(sn.net, simnet.NodeBiDiLinkSettings{Downlink: link, Uplink: link}), libp2p.DisableIdentifyAddressDiscovery(),
		libp2p.DisableMetrics(), libp2p.ForceReachabilityPublic(), libp2p.ResourceManager(&network.NullResourceManager{}))
	if err != nil {
		sn.t.Fatal(err)
	}
	sn.hosts, sn.ids, sn.dials = append(sn.hosts, h), append(sn.ids, me), append(sn.dials, dials)
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
	time.Sleep(time.Second)
	for _, h := range sn.hosts {
		_ = h.Close()
	}
	sn.net.Close()
}

// addr is the multiaddr of a host with its id.
func (sn *simNet) addr(i int) string {
	return fmt.Sprintf("%s/p2p/%s", sn.hosts[i].Addrs()[0], sn.hosts[i].ID())
}

// socket is the address of a host as packets carry it.
func (sn *simNet) socket(i int) string {
	ip, err := sn.hosts[i].Addrs()[0].ValueForProtocol(4)
	if err != nil {
		sn.t.Fatal(err)
	}
	return net.JoinHostPort(ip, "8000")
}

// vanish cuts a host off without a word.
func (sn *simNet) vanish(i int) { sn.cut.Store(sn.socket(i), true) }

// back undoes vanish.
func (sn *simNet) back(i int) { sn.cut.Delete(sn.socket(i)) }

// hole makes a host accept every stream of the DHT and never answer.
func (sn *simNet) hole(i int) {
	for _, id := range []protocol.ID{KadID, ProviderID} {
		sn.hosts[i].SetStreamHandler(id, func(s network.Stream) {
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
	cfg, deps := DefaultConfig(), Deps{Host: sn.hosts[i], Key: sn.ids[i].key}
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
	for i := range sn.hosts {
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
