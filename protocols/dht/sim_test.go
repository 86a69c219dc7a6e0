package dht

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/x/simlibp2p"
	"github.com/marcopolo/simnet"

	"allium/protocols/b3"
)

// TestSimulatedNetwork runs 16 hosts, 12 in a short run, in virtual time, 30 ms apart: records
// find their k closest, and lookups end within their deadline although hosts
// vanish without a word.
func TestSimulatedNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, dead := 16, 3
		if testing.Short() {
			n, dead = 12, 1 // half of the connections
		}
		link := simnet.NodeBiDiLinkSettings{
			Downlink: simnet.LinkSettings{BitsPerSecond: 100 * simlibp2p.OneMbps},
			Uplink:   simnet.LinkSettings{BitsPerSecond: 100 * simlibp2p.OneMbps},
		}
		var vanished sync.Map // addresses
		net := &simnet.Simnet{LatencyFunc: func(p *simnet.Packet) time.Duration {
			for _, a := range []string{p.From.String(), p.To.String()} {
				if _, gone := vanished.Load(a); gone {
					return 24 * time.Hour
				}
			}
			return 30 * time.Millisecond
		}}
		var hosts []host.Host
		var ids []identity
		for i := range n {
			me := newIdentity(t)
			h, err := libp2p.New(
				libp2p.Identity(me.key),
				libp2p.ListenAddrStrings(fmt.Sprintf("/ip4/%s/udp/8000/quic-v1", simnet.IntToPublicIPv4(i))),
				simlibp2p.QUICSimnet(
					net,
					link,
				),
				libp2p.DisableIdentifyAddressDiscovery(),
				libp2p.DisableMetrics(),
				libp2p.ForceReachabilityPublic(),
				libp2p.ResourceManager(&network.NullResourceManager{}),
			)
			if err != nil {
				t.Fatal(err)
			}
			hosts, ids = append(hosts, h), append(ids, me)
		}
		net.Start()
		ctx, cancel := context.WithCancel(t.Context())
		var services []*Service
		done := make(chan error, n)
		for i, h := range hosts {
			cfg := DefaultConfig()
			cfg.Server = true
			cfg.K = 8 // so that not everybody holds every record
			if i > 0 {
				cfg.Seeds.Bootstrap = []string{fmt.Sprintf("%s/p2p/%s", hosts[0].Addrs()[0], hosts[0].ID())}
			}
			s, err := New(cfg, Deps{Host: h, Key: ids[i].key, Filter: &filter{}})
			if err != nil {
				t.Fatal(err)
			}
			services = append(services, s)
			ready := make(chan struct{})
			go func() { done <- s.Run(ctx, func() { close(ready) }) }()
			<-ready
		}
		defer func() {
			cancel()
			for range n {
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
			for _, h := range hosts {
				_ = h.Close()
			}
			net.Close()
		}()
		time.Sleep(20 * time.Second)

		var roots []b3.Root
		for i := range 5 {
			r := root(fmt.Sprint("object ", i))
			acks, err := services[1+i].Provide(t.Context(), r)
			if err != nil || acks < 6 || acks > 8 {
				t.Errorf("%d acknowledgements of 8, %v", acks, err)
			}
			roots = append(roots, r)
		}
		find := func(s *Service, r b3.Root, want peer.ID) time.Duration {
			t.Helper()
			start := time.Now()
			for p, err := range s.FindProviders(t.Context(), r, FindOptions{Limit: 1}) {
				if err != nil || p.ID != want {
					t.Errorf("found %s, %v", p.ID, err)
				}
				return time.Since(start)
			}
			t.Error("found nobody")
			return 0
		}
		for i, r := range roots {
			for _, s := range services[8:11] {
				took := find(s, r, ids[1+i].id)
				if took > 500*time.Millisecond {
					t.Errorf("found after %s", took)
				}
			}
		}

		for _, h := range hosts[n-dead:] { // without a word
			addr, err := h.Addrs()[0].ValueForProtocol(4)
			if err != nil {
				t.Fatal(err)
			}
			vanished.Store(addr+":8000", true)
		}
		for i, r := range roots {
			start := time.Now()
			found, err := collect(services[8].FindProviders(t.Context(), r, FindOptions{Limit: 0}))
			if len(found) != 1 || found[0].ID != ids[1+i].id {
				t.Errorf("with %d dead hosts found %v, %v", dead, found, err)
			}
			if took := time.Since(start); took > 2*time.Second {
				t.Errorf("with %d dead hosts the lookup took %s", dead, took)
			}
		}
	})
}
