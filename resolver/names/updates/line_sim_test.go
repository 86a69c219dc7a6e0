package updates

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"allium/internal/env"
	"allium/internal/testkit/simnet"
	"allium/protocols/gossip"
	"allium/protocols/name"
)

// line is three nodes with gossip alone, of which the second relays between the others.
type line struct {
	*simnet.Net
	t     *testing.T
	begun time.Time
	nodes [3]*lineNode
}

// lineNode is one node of a line.
type lineNode struct {
	gossip  *gossip.Service
	updates *Updates
	stop    func()

	mu  sync.Mutex
	saw []uint64 // the numbers of the records that it learned, in order
	at  map[uint64]time.Time
}

// Learned takes up a record.
func (n *lineNode) learn(rec name.Signed) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.saw = append(n.saw, rec.Seq)
	n.at[rec.Seq] = time.Now()
}

// seen returns the numbers of the records that the node has learned.
func (n *lineNode) seen() []uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.saw)
}

// onLine runs f with three nodes in virtual time. The first one is not bound to [Gap] if free is set.
func onLine(t *testing.T, free bool, f func(t *testing.T, l *line)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &line{t: t, begun: time.Now()}
		l.Net = simnet.New(t, func(string, string) time.Duration { return roundTrip / 2 })
		defer l.Close()
		for i := range l.nodes {
			l.Add(key(t, uint64(i)), fmt.Sprintf("20.%d.0.1", i))
		}
		l.Start()
		for i := range l.nodes {
			l.nodes[i] = l.start(i, free && i == 0)
		}
		defer func() {
			for _, n := range l.nodes {
				n.stop()
			}
		}()
		l.Connect(0, 1)
		l.Connect(1, 2)
		time.Sleep(3 * time.Second)
		f(t, l)
	})
}

// start runs a node.
func (l *line) start(i int, free bool) *lineNode {
	n := &lineNode{at: map[uint64]time.Time{}}
	n.updates = New(Deps{
		Env:  env.Env{Now: func() time.Time { return at.Add(time.Since(l.begun)) }},
		Self: l.Hosts[i].ID(), HasPeers: func() bool { return n.gossip.Followers(Topic) > 0 },
		Publish: func(ctx context.Context, data []byte) error { return n.gossip.Publish(ctx, Topic, data) },
		Learned: n.learn,
	})
	var err error
	n.gossip, err = gossip.New(gossip.DefaultConfig(), gossip.Deps{Host: l.Hosts[i], Topics: []gossip.Topic{{
		Name: Topic,
		Validate: func(_ context.Context, m gossip.Message) error {
			if free {
				return nil
			}
			return n.updates.Validate(m.Via, m.Data)
		},
		Handle: func(_ context.Context, m gossip.Message) { n.updates.Handle(m.Data) },
	}}})
	if err != nil {
		l.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(l.t.Context())
	var running sync.WaitGroup
	for _, run := range []func(context.Context, func()) error{n.gossip.Run, n.updates.Run} {
		ready := make(chan struct{})
		running.Go(func() {
			if err := run(ctx, func() { close(ready) }); err != nil {
				l.t.Error(err)
			}
		})
		<-ready
	}
	n.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	return n
}

// announce announces a record on the first node.
func (l *line) announce(seq uint64) time.Time {
	l.t.Helper()
	if err := l.nodes[0].updates.Announce(l.t.Context(),
		sign(l.t, "blog", seq, fmt.Sprint("value ", seq))); err != nil {
		l.t.Error(err)
	}
	return time.Now()
}

// wait waits until a node has learned a record, and returns how long that took since a time. It fails after
// a minute.
func (l *line) wait(node int, seq uint64, since time.Time) time.Duration {
	l.t.Helper()
	for range 600 {
		if slices.Contains(l.nodes[node].seen(), seq) {
			l.nodes[node].mu.Lock()
			defer l.nodes[node].mu.Unlock()
			return l.nodes[node].at[seq].Sub(since)
		}
		time.Sleep(100 * time.Millisecond)
	}
	l.t.Fatalf("node %d has not learned record %d after a minute", node, seq)
	return 0
}

// TestSecondOfTwo: of two publications within three seconds a subscriber sees the first in a second and the
// second 11 s after it was published.
func TestSecondOfTwo(t *testing.T) {
	onLine(t, false, func(t *testing.T, l *line) {
		first := l.announce(1)
		time.Sleep(3 * time.Second)
		second := l.announce(2)
		if took := l.wait(2, 1, first); took > time.Second {
			t.Errorf("the first was seen after %s", took)
		}
		if took := l.wait(2, 2, second); took > Gap+time.Second-3*time.Second {
			t.Errorf("the second was seen after %s", took)
		}
		time.Sleep(2 * Gap)
		third := l.announce(3)
		if took := l.wait(2, 3, third); took > time.Second {
			t.Errorf("the first of another window was seen after %s", took)
		}
	})
}

// TestBurst: of 20 publications everybody sees the first and the last, also from a node that sends all.
func TestBurst(t *testing.T) {
	for _, free := range []bool{false, true} {
		t.Run(fmt.Sprint("free ", free), func(t *testing.T) {
			onLine(t, free, func(t *testing.T, l *line) {
				var last time.Time
				for i := range uint64(20) {
					if last = time.Now(); free {
						rec := sign(t, "blog", i+1, fmt.Sprint("value ", i))
						if err := l.nodes[0].gossip.Publish(t.Context(), Topic, rec.Envelope); err != nil {
							t.Error(err)
						}
					} else {
						l.announce(i + 1)
					}
					time.Sleep(200 * time.Millisecond)
				}
				for node := 1; node < 3; node++ {
					if took := l.wait(node, 20, last); took > Gap+time.Second {
						t.Errorf("node %d has seen the last after %s", node, took)
					}
				}
				time.Sleep(2 * Gap)
				for node := 1; node < 3; node++ {
					if got := l.nodes[node].seen(); !slices.Equal(got, []uint64{1, 20}) {
						t.Errorf("node %d has seen %v", node, got)
					}
				}
			})
		})
	}
}

// TestRelayAway: what is to be sent while the only relay restarts is sent when it is back.
func TestRelayAway(t *testing.T) {
	onLine(t, false, func(t *testing.T, l *line) {
		l.announce(1)
		time.Sleep(3 * time.Second)
		l.announce(2)
		time.Sleep(Gap - 4*time.Second)
		l.nodes[1].stop() // a second before the window ends
		time.Sleep(5 * time.Second)
		if got := l.nodes[2].seen(); !slices.Equal(got, []uint64{1}) {
			t.Errorf("seen %v without a relay", got)
		}
		l.nodes[1] = l.start(1, false)
		if took := l.wait(2, 2, time.Now()); took > 3*time.Second {
			t.Errorf("seen %s after the relay was back", took)
		}
	})
}
