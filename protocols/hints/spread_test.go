package hints

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	ma "github.com/multiformats/go-multiaddr"

	"allium/protocols/b3"
	"allium/protocols/gossip"
	"allium/protocols/status"
)

// one announces an object alone: what a node does not do, to have many messages.
func (n *node) one(t testing.TB, i int) {
	t.Helper()
	seq := uint64(time.Now().UnixMilli())<<16 + uint64(i)
	n.send(
		t.Context(),
		&announcement{
			slot:     slot{n.self, seq},
			seq:      seq,
			notAfter: time.Now().Add(time.Hour).Truncate(time.Second),
			roots:    sorted(roots(i, i+1)),
		},
	)
}

// TestBurst is the measure of a burst: 1,000 announcements at 20 nodes, 50 ms
// apart. Gossip drops some, or most; everybody has all within 5 s.
func TestBurst(t *testing.T) {
	nodes, burst := 16, 600
	if testing.Short() {
		nodes, burst = 6, 120
	}
	for _, tc := range []struct {
		name   string
		from   int // nodes that announce
		change func(*Config, *gossip.Config)
	}{
		{"from all", nodes, nil},
		{
			"from all, and most is dropped", nodes,
			func(_ *Config, g *gossip.Config) { g.Ingress, g.Workers, g.PeerRate = 1, 1, 1 },
		},
		{"from one, faster than it may publish", 1,
			func(_ *Config, g *gossip.Config) { g.PublishWait = time.Millisecond }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in(t, nodes, func(t *testing.T, sn *simNet) {
				sn.start(4, tc.change)
				start := time.Now()
				for i := range burst {
					sn.nodes[i%tc.from].one(t, i)
				}
				if d := time.Since(start); d > time.Second+100*time.Millisecond {
					t.Errorf("announcing took %s", d)
				}
				synctest.Wait()
				took := within(t, 5*time.Second, "all at all",
					func() bool { return sn.missing(sn.nodes, 0, burst) == 0 })
				gossiped, synced := sn.value(
					"announce_accepted_total",
					"via",
					"gossip",
				), sn.value(
					"announce_accepted_total",
					"via",
					"sync",
				)
				t.Logf("complete after %s: %.0f by gossip, %.0f by comparisons, of which there were %.0f; dropped %.0f",
					took, gossiped, synced, sn.value("announce_syncs_total", "side", "asked"),
					sn.value("gossip_dropped_total"))
				want := float64(burst * (nodes - 1))
				if gossiped+synced != want {
					t.Errorf("%.0f came, want %.0f", gossiped+synced, want)
				}
				failed := sn.value("announce_published_total") - sn.value("announce_published_total", "result", "ok")
				if gossiped < want && sn.value("gossip_dropped_total")+failed == 0 {
					t.Errorf("%.0f did not come by gossip, and nobody counted why", want-gossiped)
				}
				time.Sleep(2 * time.Second) // comparisons that were on their way
				quiet := sn.value("announce_sync_sent_total")
				time.Sleep(30 * time.Second)
				if again := sn.value("announce_sync_sent_total"); again != quiet {
					t.Errorf("%.0f announcements were sent when all had all", again-quiet)
				}
			})
		})
	}
}

// knows reports whether a node has a hint of an object that names who.
func (n *node) knows(i int, who *node) bool {
	for _, h := range n.Hints(root(i)) {
		if h.ID == who.self && len(h.Addrs) > 0 && time.Until(h.NotAfter) > time.Minute {
			return true
		}
	}
	return false
}

// TestAnnounceAndWithdraw: a thousand objects pinned at once are a few messages;
// what is withdrawn is no hint any more, here and at the others, and does not
// come back; a node that was not there gets all that holds.
func TestAnnounceAndWithdraw(t *testing.T) {
	in(t, 4, func(t *testing.T, sn *simNet) {
		sn.start(2, nil)
		a, b := sn.nodes[0], sn.nodes[1]
		late := sn.nodes[3]
		late.stop()
		for i := range 1000 {
			if err := a.Announce(root(i)); err != nil {
				t.Fatal(err)
			}
		}
		within(t, 2*time.Second, "all hints", func() bool { return b.knows(0, a) && b.knows(999, a) })
		if n := sn.value("announce_published_total"); n > 4 {
			t.Errorf("%.0f messages for 1,000 objects", n)
		}
		if len(a.Hints(root(0))) != 0 {
			t.Error("a node is a hint of its own")
		}
		for i := range 10 {
			if err := a.Withdraw(root(i)); err != nil {
				t.Fatal(err)
			}
		}
		_ = a.Announce(root(5)) // thought better of it
		within(t, 2*time.Second, "withdrawn", func() bool { return !b.knows(0, a) && !b.knows(9, a) })
		if !b.knows(5, a) || !b.knows(10, a) || !b.knows(999, a) {
			t.Error("more was withdrawn than asked for")
		}
		_ = a.Announce(root(20)) // again: nothing new
		time.Sleep(time.Second)
		before := sn.value("announce_published_total")
		_ = a.Announce(root(20))
		_ = a.Withdraw(root(5000)) // never announced
		time.Sleep(time.Second)
		if n := sn.value("announce_published_total"); n != before {
			t.Errorf("%.0f messages that say nothing new", n-before)
		}

		sn.nodes[3] = sn.run(3, nil) // with an empty memory
		late = sn.nodes[3]
		within(t, 5*time.Second, "a latecomer knows", func() bool { return late.knows(999, a) && late.knows(5, a) })
		time.Sleep(20 * time.Second)
		if b.knows(0, a) || late.knows(0, a) {
			t.Error("what was withdrawn came back")
		}
		a.stop()
		if err := a.Announce(root(1)); status.Of(err) != status.Draining {
			t.Errorf("after its end it says %v", err)
		}
		time.Sleep(b.cfg.TTL + sweepEvery)
		if n, hints, bytes := b.memory.usage(); n+hints != 0 || bytes != 0 || b.knows(999, a) {
			t.Errorf("expired, and %d announcements, %d objects, %d bytes are held", n, hints, bytes)
		}
	})
}

// TestPartition: both sides of a partition know what the other said while it was
// there, soon after it heals.
func TestPartition(t *testing.T) {
	in(t, 6, func(t *testing.T, sn *simNet) {
		sn.start(5, nil)
		for i := range 3 {
			sn.Split(i, "left")
		}
		for i := range 30 {
			_ = sn.nodes[0].Announce(root(i))
			_ = sn.nodes[5].Announce(root(30 + i))
		}
		within(t, 10*time.Second, "each side to know its own", func() bool {
			return sn.missing(sn.nodes[:3], 0, 30) == 0 && sn.missing(sn.nodes[3:], 30, 60) == 0
		})
		time.Sleep(time.Minute) // connections die
		if sn.missing(sn.nodes[:3], 30, 60) != 90 || sn.missing(sn.nodes[3:], 0, 30) != 90 {
			t.Error("something passed")
		}
		for i := range 3 {
			sn.Split(i, nil)
		}
		sn.connect(1, 4)
		took := within(t, 8*time.Second, "all to know all", func() bool { return sn.missing(sn.nodes, 0, 60) == 0 })
		t.Logf("healed after %s", took)
	})
}

// TestManyArrivals: peers that come and go without end make a node compare, but
// not without end.
func TestManyArrivals(t *testing.T) {
	in(t, 3, func(t *testing.T, sn *simNet) {
		sn.start(1, nil)
		time.Sleep(time.Minute) // all is quiet
		before := sn.value("announce_syncs_total", "side", "asked")
		const long = time.Minute
		for start := time.Now(); time.Since(start) < long; time.Sleep(400 * time.Millisecond) {
			_ = sn.Hosts[0].Network().ClosePeer(sn.Hosts[1].ID())
			sn.connect(0, 1)
		}
		cfg := DefaultConfig()
		most := float64(len(sn.nodes)) * (float64(long/(arrivalGap*cfg.SyncSoon)) + 1)
		n := sn.value("announce_syncs_total", "side", "asked") - before
		if least := float64(len(sn.nodes)) * float64(long/cfg.SyncInterval); n < least || n > most*1.3 {
			t.Errorf("%.0f comparisons in %s, want %.0f to %.0f", n, long, least, most)
		}
	})
}

// TestWithdrawnBatchesAreUsedAgain: a node that announces one object after another, and withdraws each later, takes no
// more memory of any node than what it has announced at a time.
func TestWithdrawnBatchesAreUsedAgain(t *testing.T) {
	const kept, all = 10, 200
	in(t, 3, func(t *testing.T, sn *simNet) {
		sn.start(2, nil)
		a := sn.nodes[0]
		for i := range all {
			if err := a.Announce(root(i)); err != nil {
				t.Fatal(err)
			}
			if i >= kept {
				if err := a.Withdraw(root(i - kept)); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Second)
		}
		for i, n := range sn.nodes {
			if held, hints, _ := n.memory.usage(); held > kept+1 || hints != kept {
				t.Errorf("node %d holds %d announcements of %d objects, want %d", i, held, hints, kept)
			}
		}
		for _, n := range sn.nodes[1:] {
			if n.knows(all-kept-1, a) || !n.knows(all-kept, a) || !n.knows(all-1, a) {
				t.Error("a node knows what was withdrawn, or does not know what was announced")
			}
		}
	})
}

// TestRestart: a node that comes back without a memory gets its own announcements
// back from the others, and so can withdraw them.
func TestRestart(t *testing.T) {
	in(t, 3, func(t *testing.T, sn *simNet) {
		sn.start(2, nil)
		for i := range 10 {
			if err := sn.nodes[0].Announce(root(i)); err != nil {
				t.Fatal(err)
			}
		}
		within(t, 2*time.Second, "all hints", func() bool { return sn.missing(sn.nodes, 0, 10) == 0 })
		sn.nodes[0].stop()
		sn.nodes[0] = sn.run(0, nil)
		a, b := sn.nodes[0], sn.nodes[1]
		within(t, 5*time.Second, "its own to come back", func() bool { return sn.missing(sn.nodes[:1], 0, 10) == 0 })
		if err := a.Withdraw(root(3)); err != nil {
			t.Fatal(err)
		}
		within(t, 2*time.Second, "withdrawn", func() bool { return !b.knows(3, a) })
		if !b.knows(4, a) {
			t.Error("more was withdrawn than asked for")
		}
	})
}

// TestWithdrawAfterTheClockWasAhead: what a node announced while its clock was
// ahead can be withdrawn when it is right, and the node was restarted.
func TestWithdrawAfterTheClockWasAhead(t *testing.T) {
	me := fixedIdentity(t, 1)
	s := newTested(t, me)
	s.deps.Host = addressed{s.deps.Host}
	ahead := time.Now().Add(time.Hour)
	old := me.announce(t, 1, uint64(ahead.UnixMilli()), ahead.Add(time.Hour), roots(0, 2)...)
	if err := s.keep(old, viaSync, time.Now()); err != nil {
		t.Fatal(err)
	}
	for _, a := range s.announcements(map[b3.Root]bool{root(0): true}, time.Now()) {
		s.send(t.Context(), a)
	}
	if n, hints, _ := s.memory.usage(); n != 1 || hints != 1 || s.memory.of(me.id, root(0), time.Now()) != nil {
		t.Errorf("%d announcements of %d objects, want one of one", n, hints)
	}
}

// addressed is a host that has an address.
type addressed struct{ host.Host }

func (addressed) Addrs() []ma.Multiaddr {
	return []ma.Multiaddr{ma.StringCast("/ip4/192.0.2.1/tcp/4901")}
}

// TestFullMemoriesAreQuiet: nodes that hold as much as they may, and not the same,
// do not send each other again and again what the other has no room for.
func TestFullMemoriesAreQuiet(t *testing.T) {
	in(t, 4, func(t *testing.T, sn *simNet) {
		sn.start(3, func(c *Config, g *gossip.Config) {
			c.MaxAnnouncements, g.PublishRate = 80, 1 // most is not published
			g.PublishWait = time.Millisecond
		})
		for i := range 200 {
			sn.nodes[i%4].one(t, i)
		}
		time.Sleep(10 * time.Second)
		for _, n := range sn.nodes {
			n.memory.mu.Lock()
			n.memory.check(t)
			n.memory.mu.Unlock()
		}
		sent := sn.value("announce_sync_sent_total")
		time.Sleep(5 * time.Minute)
		if again := sn.value("announce_sync_sent_total"); again != sent {
			t.Errorf("%.0f more were sent to who has no room", again-sent)
		}
	})
}
