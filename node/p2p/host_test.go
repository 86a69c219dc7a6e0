package p2p

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/pnet"
	"github.com/libp2p/go-libp2p/core/protocol"
	ma "github.com/multiformats/go-multiaddr"
	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/env"
	"allium/protocols/status"
)

func newKey(t testing.TB) crypto.PrivKey {
	t.Helper()
	key, _, err := crypto.GenerateEd25519Key(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func testnetConfig(t testing.TB) Config {
	t.Helper()
	c, err := ProfileConfig(Testnet)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func build(t testing.TB, c Config, d Deps) host.Host {
	t.Helper()
	if d.Key == nil {
		d.Key = newKey(t)
	}
	b, err := New(c, d)
	if err != nil {
		t.Fatal(err)
	}
	h, err := b.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

func timeout(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// TestBothTransports connects over each of the two listeners in turn.
func TestBothTransports(t *testing.T) {
	key := newKey(t)
	a := build(t, testnetConfig(t), Deps{Key: key, Version: "1.2.3"})
	if id, _ := peer.IDFromPrivateKey(key); a.ID() != id {
		t.Errorf("the host is %s, its key is of %s", a.ID(), id)
	}
	for _, want := range []int{ma.P_TCP, ma.P_QUIC_V1} {
		var addrs []ma.Multiaddr
		for _, addr := range a.Addrs() {
			if _, err := addr.ValueForProtocol(want); err == nil {
				addrs = append(addrs, addr)
			}
		}
		if len(addrs) != 1 {
			t.Fatalf("%d addresses for %s in %v", len(addrs), ma.ProtocolWithCode(want).Name, a.Addrs())
		}
		b := build(t, testnetConfig(t), Deps{})
		if err := b.Connect(timeout(t), peer.AddrInfo{ID: a.ID(), Addrs: addrs}); err != nil {
			t.Fatal(err)
		}
		if agent, err := b.Peerstore().Get(a.ID(), "AgentVersion"); err != nil || agent != "allium/1.2.3" {
			t.Errorf("the agent is %v (%v)", agent, err)
		}
	}
}

// TestProfilesBuild starts and stops every profile on loopback.
func TestProfilesBuild(t *testing.T) {
	for _, p := range Profiles() {
		t.Run(string(p), func(t *testing.T) {
			c, err := ProfileConfig(p)
			if err != nil {
				t.Fatal(err)
			}
			c.Listen = testnetConfig(t).Listen
			c.PortMap = false // asks the network
			if p == Desktop {
				c.Relays = []string{"/ip4/127.0.0.1/tcp/9/p2p/" + idOf(t, newKey(t)).String()}
			}
			if h := build(t, c, Deps{}); len(h.Addrs()) != 2 {
				t.Errorf("the addresses are %v", h.Addrs())
			}
		})
	}
}

func idOf(t testing.TB, key crypto.PrivKey) peer.ID {
	t.Helper()
	id, err := peer.IDFromPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// TestRebuildOnOneRegistry is a restart of the network stage.
func TestRebuildOnOneRegistry(t *testing.T) {
	reg := prometheus.NewRegistry()
	b, err := New(testnetConfig(t), Deps{Env: env.Env{Metrics: reg}, Key: newKey(t)})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		h, err := b.Build(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if len(families) == 0 {
		t.Error("no metrics are registered")
	}
}

// TestPortInUse: all addresses or none, and nothing is left running.
func TestPortInUse(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := fmt.Sprintf("/ip4/127.0.0.1/tcp/%d", l.Addr().(*net.TCPAddr).Port)
	const free = "/ip4/127.0.0.1/udp/0/quic-v1"
	of := map[string]string{} // where another node listens, by transport
	for _, a := range build(t, testnetConfig(t), Deps{}).Addrs() {
		of[map[bool]string{true: "quic", false: "tcp"}[isQUIC(a)]] = a.String()
	}
	for name, listen := range map[string][]string{
		"alone":                        {taken},
		"and another":                  {free, taken},
		"of another node":              {of["tcp"]},
		"of another node, and another": {free, of["tcp"]},
		"of another node, QUIC":        {"/ip4/127.0.0.1/tcp/0", of["quic"]},
	} {
		c := testnetConfig(t)
		c.Listen = listen
		b, err := New(c, Deps{Key: newKey(t)})
		if err != nil {
			t.Fatal(err)
		}
		h, err := b.Build(t.Context())
		if err == nil {
			_ = h.Close()
		}
		if status.Of(err) != status.TransportDown || !strings.Contains(err.Error(), syscall.EADDRINUSE.Error()) ||
			!strings.Contains(err.Error(), "cannot listen on "+listen[len(listen)-1]) {
			t.Errorf("%s: got %v, %v", name, h, err)
		}
	}
}

// TestOverlappingAddresses: a node may listen on overlapping addresses, and the next node
// can use the port again.
func TestOverlappingAddresses(t *testing.T) {
	for tries := 0; ; tries++ {
		err := overlap(t)
		if err == nil {
			return
		}
		if !errors.Is(err, syscall.EADDRINUSE) || tries == 9 { // else somebody else got the port
			t.Fatal(err)
		}
	}
}

// overlap runs two hosts, one after the other, that listen on one port twice.
func overlap(t *testing.T) error {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	addr := fmt.Sprintf("/ip4/127.0.0.1/tcp/%d", l.Addr().(*net.TCPAddr).Port)
	if err := l.Close(); err != nil {
		return err
	}
	c := testnetConfig(t)
	c.Listen = []string{addr, addr}
	other := build(t, testnetConfig(t), Deps{})
	for range 2 {
		b, err := New(c, Deps{Key: newKey(t)})
		if err != nil {
			return err
		}
		h, err := b.Build(t.Context())
		if err != nil {
			return err
		}
		if err := errors.Join(other.Connect(timeout(t), peer.AddrInfo{ID: h.ID(), Addrs: h.Addrs()}),
			h.Close()); err != nil {
			return err
		}
	}
	return nil
}

func TestListenNowhere(t *testing.T) {
	c := testnetConfig(t)
	c.Listen = nil
	a := build(t, testnetConfig(t), Deps{})
	b := build(t, c, Deps{})
	if len(b.Addrs()) != 0 {
		t.Errorf("it listens on %v", b.Addrs())
	}
	if err := b.Connect(timeout(t), peer.AddrInfo{ID: a.ID(), Addrs: a.Addrs()}); err != nil {
		t.Error(err)
	}
}

func TestPrivateNetwork(t *testing.T) {
	psk := make(pnet.PSK, 32)
	psk[0] = 1
	a := build(t, testnetConfig(t), Deps{PSK: psk})
	if len(a.Addrs()) != 1 {
		t.Errorf("the addresses are %v, want TCP alone", a.Addrs())
	}
	info := peer.AddrInfo{ID: a.ID(), Addrs: a.Addrs()}
	if err := build(t, testnetConfig(t), Deps{PSK: psk}).Connect(timeout(t), info); err != nil {
		t.Errorf("with the key: %v", err)
	}
	other := make(pnet.PSK, 32)
	other[0] = 2
	for name, d := range map[string]Deps{"without the key": {}, "with another key": {PSK: other}} {
		err := build(t, testnetConfig(t), d).Connect(timeout(t), info)
		if err == nil || !strings.Contains(err.Error(), "failed to negotiate security protocol") {
			t.Errorf("%s: %v", name, err) // node/local knows this text
		}
	}
	c := testnetConfig(t)
	c.Listen = c.Listen[:1]
	if _, err := New(c, Deps{Key: newKey(t), PSK: psk}); status.Of(err) != status.BadRequest {
		t.Errorf("QUIC alone in a private network: %v", err)
	}
}

func TestNewRefusals(t *testing.T) {
	for name, d := range map[string]Deps{
		"no key":    {},
		"short psk": {Key: newKey(t), PSK: make(pnet.PSK, 16)},
	} {
		if _, err := New(testnetConfig(t), d); status.Of(err) != status.BadRequest {
			t.Errorf("%s: got %v", name, err)
		}
	}
	c := testnetConfig(t)
	c.MaxConns = 0
	if _, err := New(c, Deps{Key: newKey(t)}); status.Of(err) != status.BadRequest {
		t.Errorf("a bad configuration: got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b, err := New(testnetConfig(t), Deps{Key: newKey(t)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Build(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: got %v", err)
	}
}

// TestProtocolLimitBites opens streams until the other side's limit for one
// peer and protocol, on both transports.
func TestProtocolLimitBites(t *testing.T) {
	for _, id := range []protocol.ID{"/allium/prov/1.0.0", "/allium/gossip/1.0.0"} {
		t.Run(string(id), func(t *testing.T) { testProtocolLimit(t, id) })
	}
}

func testProtocolLimit(t *testing.T, id protocol.ID) {
	for i, listen := range testnetConfig(t).Listen {
		t.Run(listen, func(t *testing.T) {
			c := testnetConfig(t)
			c.Listen = c.Listen[i : i+1]
			server, client := build(t, c, Deps{}), build(t, c, Deps{})
			server.SetStreamHandler(id, func(s network.Stream) { // answers one byte and stays open
				buf := make([]byte, 1)
				if _, err := s.Read(buf); err != nil {
					_ = s.Reset()
					return
				}
				_, _ = s.Write(buf)
			})
			ctx := timeout(t)
			if err := client.Connect(ctx, peer.AddrInfo{ID: server.ID(), Addrs: server.Addrs()}); err != nil {
				t.Fatal(err)
			}
			open := func() error {
				s, err := client.NewStream(ctx, server.ID(), id)
				if err != nil {
					return err
				}
				_ = s.SetDeadline(time.Now().Add(time.Minute))
				if _, err := s.Write([]byte{1}); err != nil {
					return err
				}
				_, err = s.Read(make([]byte, 1))
				return err
			}
			limit := 0
			for _, l := range c.streamLimits() {
				if l.id == id {
					limit = int(l.peer)
				}
			}
			for n := range limit {
				if err := open(); err != nil {
					t.Fatalf("stream %d of %d: %v", n+1, limit, err)
				}
			}
			if err := open(); err == nil {
				t.Errorf("stream %d was not refused", limit+1)
			}
		})
	}
}

// TestLimitPerAddress: one address has its share, loopback is exempt.
func TestLimitPerAddress(t *testing.T) {
	c := DefaultConfig()
	rm, err := c.newResourceManager(false, newConnShares(c, nil, nil))
	if err != nil {
		t.Fatal(err)
	}
	defer rm.Close()
	open := func(addr string) (n int) {
		a := ma.StringCast(addr)
		for range 4 * c.MaxConnsPerIP {
			scope, err := rm.OpenConnection(network.DirInbound, false, a)
			if err != nil {
				break
			}
			defer scope.Done()
			n++
		}
		return n
	}
	for addr, want := range map[string]int{
		"/ip4/192.0.2.7/udp/1/quic-v1":   c.MaxConnsPerIP,
		"/ip6/2001:db8::1/udp/1/quic-v1": c.MaxConnsPerIP,
		"/ip4/127.0.0.1/udp/1/quic-v1":   4 * c.MaxConnsPerIP,
		"/ip6/::1/udp/1/quic-v1":         4 * c.MaxConnsPerIP,
	} {
		if got := open(addr); got != want {
			t.Errorf("%s: %d connections, want %d", addr, got, want)
		}
	}
}

// TestMaxConns: the whole node has a bound that no address is exempt from.
func TestMaxConns(t *testing.T) {
	c := DefaultConfig()
	c.ConnsLow, c.ConnsHigh, c.MaxConns = 1, 2, 3
	rm, err := c.newResourceManager(false, newConnShares(c, nil, nil))
	if err != nil {
		t.Fatal(err)
	}
	defer rm.Close()
	for n := range c.MaxConns + 1 {
		scope, err := rm.OpenConnection(network.DirInbound, false, ma.StringCast("/ip4/127.0.0.1/udp/1/quic-v1"))
		if refused := err != nil; refused != (n == c.MaxConns) {
			t.Fatalf("connection %d: %v", n+1, err)
		}
		if err == nil {
			defer scope.Done()
		}
	}
}
