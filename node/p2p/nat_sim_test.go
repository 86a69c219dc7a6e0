package p2p

import (
	"context"
	"fmt"
	manet "github.com/multiformats/go-multiaddr/net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"allium/internal/testkit/simnet"
	"allium/node/p2p/reach"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
)

// simulated is a network of nodes in virtual time. The first four are public and serve as relays; each has an
// IP group of its own.
type simulated struct {
	*testing.T
	net   *simnet.Internet
	seeds []*simNode
	next  int
	all   []*simNode
}

type simNode struct {
	host.Host
	reach *reach.Service
	end   func()
}

func newSimulated(t *testing.T, seeds int) *simulated {
	s := &simulated{T: t, net: simnet.NewInternet(t, 20*time.Millisecond)}
	for i := range seeds {
		s.seeds = append(s.seeds, s.add(Server, simnet.None, fmt.Sprintf("2%d.0.0.1", i), nil))
	}
	return s
}

// add starts a node with a public IP address, its own or that of its router.
func (s *simulated) add(p Profile, nat simnet.NAT, ip string, change func(*Config)) *simNode {
	s.Helper()
	c, err := ProfileConfig(p)
	if err != nil {
		s.Fatal(err)
	}
	var router *simnet.Router
	at := ip
	if nat != simnet.None {
		router = s.net.Router(nat, ip)
		s.next++
		at = fmt.Sprintf("192.168.%d.2", s.next)
	}
	c.PortMap = false
	c.Listen = []string{fmt.Sprintf("/ip4/%s/udp/4901/quic-v1", at)}
	if strings.Contains(at, ":") {
		c.Listen = []string{fmt.Sprintf("/ip6/%s/udp/4901/quic-v1", at)}
	}
	if change != nil {
		change(&c)
	}
	key := newKey(s)
	b, err := New(c, Deps{Key: key})
	if err != nil {
		s.Fatal(err)
	}
	b.quic = s.net.Transport(router, key, at, 4901)
	h, err := b.Build(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	h.SetStreamHandler("/oap/1/object", func(st network.Stream) { _ = st.Close() })
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	ready := make(chan struct{})
	running.Go(func() {
		if err := b.Reach().Run(ctx, func() { close(ready) }); err != nil {
			s.Error(err)
		}
	})
	<-ready
	n := &simNode{Host: h, reach: b.Reach(), end: func() {
		cancel()
		running.Wait()
		if err := h.Close(); err != nil {
			s.Error(err)
		}
		b.Wait()
	}}
	s.all = append(s.all, n)
	return n
}

func (s *simulated) close() {
	for _, n := range s.all {
		n.end()
	}
	s.net.Close()
}

func (s *simulated) connect(a, b *simNode) {
	s.Helper()
	if err := a.Connect(s.Context(), peer.AddrInfo{ID: b.ID(), Addrs: b.Addrs()}); err != nil {
		s.Fatal(err)
	}
}

// joined starts four public nodes that know each other.
func joined(t *testing.T) *simulated {
	s := newSimulated(t, 4)
	for i, a := range s.seeds {
		for _, b := range s.seeds[i+1:] {
			s.connect(a, b)
		}
	}
	return s
}

// join adds a node that connects to the public ones.
func (s *simulated) join(nat simnet.NAT, ip string) *simNode {
	n := s.add(Desktop, nat, ip, nil)
	for _, b := range s.seeds {
		s.connect(n, b)
	}
	return n
}

// path returns how a reaches b: direct at once, punched, or relayed.
func (s *simulated) path(a, b *simNode) string {
	s.connect(a, b)
	if isDirect(a, b) {
		return "direct"
	}
	for range 60 {
		time.Sleep(500 * time.Millisecond)
		if isDirect(a, b) {
			return "punched"
		}
	}
	return "relayed"
}

func isDirect(a, b *simNode) bool {
	return slices.ContainsFunc(a.Network().ConnsToPeer(b.ID()), func(c network.Conn) bool {
		return !reach.IsRelayed(c.RemoteMultiaddr())
	})
}

// natPaths is the table of docs/concepts/reach.md: the path from a node that dials to one that is dialled.
var natPaths = map[simnet.NAT][]string{
	//                     none, full cone, restricted, port-restricted, symmetric
	simnet.None:           {"direct", "direct", "punched", "punched", "punched"},
	simnet.FullCone:       {"direct", "direct", "punched", "punched", "punched"},
	simnet.Restricted:     {"direct", "direct", "punched", "punched", "punched"},
	simnet.PortRestricted: {"direct", "direct", "punched", "punched", "relayed"},
	simnet.Symmetric:      {"direct", "direct", "punched", "relayed", "relayed"},
}

// TestNATMatrix connects nodes behind each pair of routers, half a minute after they started.
func TestNATMatrix(t *testing.T) {
	t.Parallel()
	for from, paths := range natPaths {
		for to, want := range paths {
			if testing.Short() && simnet.NAT(to) != from {
				continue // the goroutines are those of five pairs, one of each type
			}
			t.Run(fmt.Sprintf("%s to %s", from, simnet.NAT(to)), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					s := joined(t)
					defer s.close()
					a, b := s.join(from, "30.0.0.1"), s.join(simnet.NAT(to), "31.0.0.1")
					time.Sleep(30 * time.Second)
					if got := s.path(a, b); got != want {
						t.Errorf("the path is %s, want %s; announced %v", got, want, b.Addrs())
					}
				})
			})
		}
	}
}

// TestNATMatrixDocumented compares the table with the documentation's.
func TestNATMatrixDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/concepts/reach.md")
	if err != nil {
		t.Fatal(err)
	}
	for from, paths := range natPaths {
		line := fmt.Sprintf("| **%s** | %s |", from, strings.Join(paths, " | "))
		if !strings.Contains(string(page), line) {
			t.Errorf("docs/concepts/reach.md lacks the line %q", line)
		}
	}
}

// TestAnnounced: what nodes announce half a minute after they started, by the type of their NAT.
func TestAnnounced(t *testing.T) {
	t.Parallel()
	for nat, want := range map[simnet.NAT]struct {
		direct  bool // an address that peers dial
		relayed int
	}{
		simnet.None:           {true, 0},
		simnet.FullCone:       {true, reach.Relays},
		simnet.Restricted:     {true, reach.Relays}, // only those who confirmed it get through
		simnet.PortRestricted: {false, reach.Relays},
		simnet.Symmetric:      {false, reach.Relays},
	} {
		t.Run(nat.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := joined(t)
				defer s.close()
				n := s.join(nat, "30.0.0.1")
				begun := time.Now()
				if nat != simnet.None {
					// Within 5 s of knowing a relay; the nodes here know one after a fraction of a second.
					for len(n.Addrs()) == 0 && time.Since(begun) < 5*time.Second {
						time.Sleep(10 * time.Millisecond)
					}
					if !slices.ContainsFunc(n.Addrs(), reach.IsRelayed) {
						t.Errorf("after %s it announces %v", time.Since(begun), n.Addrs())
					}
				}
				time.Sleep(30 * time.Second)
				direct, relayed := 0, 0
				for _, a := range n.Addrs() {
					switch {
					case reach.IsRelayed(a):
						relayed++
					case !manet.IsPublicAddr(a):
						t.Errorf("it announces %s", a)
					default:
						direct++
					}
				}
				if (direct > 0) != want.direct || relayed != want.relayed {
					t.Errorf("it announces %v", n.Addrs())
				}
			})
		})
	}
}
