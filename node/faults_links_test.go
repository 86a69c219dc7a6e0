package node_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/gateway/api"
	"allium/internal/testkit"
	"allium/node/config"
	"allium/protocols/status"
)

// transports are the ways in which two nodes of a testnet meet.
var transports = []string{"/ip4/127.0.0.1/tcp/0", "/ip4/127.0.0.1/udp/0/quic-v1"}

// over makes a node listen on one transport alone.
func over(listen string, more ...func(*config.Config)) func(*config.Config) {
	return func(c *config.Config) {
		c.Listen.Listen = []string{listen}
		c.Listen.DialTimeout = time.Second // what a dial into a cut takes
		for _, f := range more {
			f(c)
		}
	}
}

// to is a fault of the link to n.
func to(n *running, l api.LinkFault) api.Faults {
	l.Peer = n.ID().ID
	return api.Faults{Links: []api.LinkFault{l}}
}

// ping pings for at most some time and returns the outcome.
func ping(t *testing.T, from, n *running, most time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), most)
	defer cancel()
	_, err := from.api.Ping(ctx, n.ID().ID)
	return err
}

// TestCut: over a link that was cut at one end nothing passes either way; calls
// end by their deadlines, and when it is healed they work, without a restart.
func TestCut(t *testing.T) {
	noLeaks(t)
	for _, listen := range transports {
		t.Run(strings.Split(listen, "/")[3], func(t *testing.T) {
			t.Parallel()
			a := start(t, over(listen))
			b := start(t, over(listen, joining(a)))
			root, _ := addBytes(t, b, 1, 200_000)
			awaitProvider(t, a, root.String())
			if err := ping(t, a, b, patience); err != nil {
				t.Fatal(err)
			}
			set(t, a, to(b, api.LinkFault{Cut: true}))
			if err := ping(t, a, b, 500*time.Millisecond); err == nil {
				t.Error("a ping passed from where the link is cut")
			}
			if err := ping(t, b, a, 500*time.Millisecond); err == nil {
				t.Error("a ping passed to where the link is cut")
			}
			if _, err := a.api.Fetch(t.Context(), root.String(), nil); err == nil || status.Of(err) == status.Internal {
				t.Errorf("a fetch over a cut: %v", err)
			}
			testkit.Eventually(t, "something to be cut, and counted", func() bool {
				_, _ = ping(t, a, b, time.Second), ping(t, b, a, time.Second)
				return !exposed(t, a, `fault_packets_total{kind="cut"} 0`)
			})
			set(t, a, api.Faults{})
			testkit.Eventually(t, "the link is healed", func() bool {
				return ping(t, a, b, 5*time.Second) == nil && ping(t, b, a, 5*time.Second) == nil
			})
			testkit.Eventually(t, "a fetch over it", func() bool {
				_, err := a.api.Fetch(t.Context(), root.String(), nil)
				return err == nil
			})
		})
	}
}

// TestCutRefusesDials: a new connection into a cut, or out of it, ends by the
// timeout of its dial and not before.
func TestCutRefusesDials(t *testing.T) {
	noLeaks(t)
	for _, listen := range transports {
		t.Run(strings.Split(listen, "/")[3], func(t *testing.T) {
			t.Parallel()
			a, b := start(t, over(listen)), start(t, over(listen))
			set(t, a, to(b, api.LinkFault{Cut: true}))
			for _, dial := range []struct{ from, to *running }{{a, b}, {b, a}} {
				_, err := dial.from.api.Connect(t.Context(), dial.to.ID().Addrs[0])
				if dial.from == a && (status.Of(err) != status.TransportDown ||
					!strings.Contains(err.Error(), "no answer")) {
					t.Errorf("out of the cut: %v", err)
				}
				if err == nil { // over TCP the one who dials may not know yet
					err = ping(t, dial.from, dial.to, 500*time.Millisecond)
				}
				if err == nil {
					t.Error("a connection passed the cut")
				}
			}
			set(t, a, api.Faults{})
			testkit.Eventually(t, "a dial after that", func() bool {
				_, err := a.api.Connect(t.Context(), b.ID().Addrs[0])
				return err == nil && ping(t, a, b, 5*time.Second) == nil
			})
		})
	}
}

// TestBadLink: over a link that is slow and loses packets a transfer ends whole,
// and both are seen to happen.
func TestBadLink(t *testing.T) {
	noLeaks(t)
	for _, listen := range transports {
		t.Run(strings.Split(listen, "/")[3], func(t *testing.T) {
			t.Parallel()
			a := start(t, over(listen))
			b := start(t, over(listen, joining(a)))
			root, _ := addBytes(t, b, 2, 300_000)
			awaitProvider(t, a, root.String())
			f := to(a, api.LinkFault{DelayMS: 5, JitterMS: 5, Loss: 0.02})
			f.Rate = 4 << 20
			set(t, b, f)
			if _, err := a.api.Fetch(t.Context(), root.String(), nil); err != nil {
				t.Fatal(err)
			}
			if metric(t, b, `fault_packets_total{kind="delay"}`) == 0 {
				t.Error("nothing was delayed")
			}
			set(t, b, api.Faults{})
			if err := ping(t, a, b, patience); err != nil {
				t.Errorf("healed: %v", err)
			}
		})
	}
}

// TestWrongLinks: what is no link is refused, and changes nothing.
func TestWrongLinks(t *testing.T) {
	noLeaks(t)
	n := start(t, nil)
	for _, l := range []api.LinkFault{{}, {Peer: "x"}, {Peer: n.ID().ID, Addrs: []string{"x"}},
		{Peer: n.ID().ID, DelayMS: 10_001}, {Peer: n.ID().ID, Loss: 1.5}} {
		if _, err := n.api.SetFaults(t.Context(),
			api.Faults{Links: []api.LinkFault{l}}); status.Of(err) != status.BadRequest {
			t.Errorf("%+v: %v", l, err)
		}
	}
	id, err := peer.Decode(n.ID().ID)
	if err != nil {
		t.Fatal(err)
	}
	// two spellings
	twice := api.Faults{Links: []api.LinkFault{{Peer: id.String(), Cut: true}, {Peer: peer.ToCid(id).String()}}}
	if _, err := n.api.SetFaults(t.Context(), twice); status.Of(err) != status.BadRequest ||
		!strings.Contains(err.Error(), "one peer") {
		t.Errorf("two links to one peer: %v", err)
	}
	if f, err := n.api.Faults(t.Context()); err != nil || len(f.Links) != 0 {
		t.Errorf("%+v, %v", f, err)
	}
}
