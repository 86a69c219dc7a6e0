package gossip

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/status"
)

// TestPublishRefused checks every refusal of Publish that needs no traffic.
func TestPublishRefused(t *testing.T) {
	in(t, 1, func(t *testing.T, sn *simNet) {
		fresh, err := New(DefaultConfig(), Deps{Host: sn.Hosts[0], Topics: []Topic{{
			Name: testTopic, Validate: judge, Handle: func(context.Context, Message) {},
		}}})
		if err != nil {
			t.Fatal(err)
		}
		if o := status.Of(fresh.Publish(t.Context(), testTopic, nil)); o != status.NotReady {
			t.Errorf("before Run: %s", o)
		}
		n := start(t, sn.Hosts[0], func(_ *Config, topic *Topic) { topic.Validate = judge })
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		for _, c := range []struct {
			name  string
			ctx   context.Context
			topic string
			data  []byte
			want  status.Outcome
		}{
			{"unknown topic", t.Context(), "/allium/1/other", nil, status.BadRequest},
			{"one byte too many", t.Context(), testTopic, make([]byte, MaxMessage+1), status.FrameOversize},
			{"bad", t.Context(), testTopic, []byte("bad"), status.BadSignature},
			{"stale", t.Context(), testTopic, []byte("stale"), status.Stale},
			{"panic", t.Context(), testTopic, []byte("panic"), status.Internal},
			{"empty", t.Context(), testTopic, nil, status.OK},
			{"largest, of the whole budget", t.Context(), testTopic, make([]byte, MaxMessage-1024), status.OK},
			{"over the budget", t.Context(), testTopic, make([]byte, MaxMessage), status.OK}, // waits half a second
			{"no time to wait", canceled, testTopic, make([]byte, MaxMessage), status.Canceled},
		} {
			if o := status.Of(n.Publish(c.ctx, c.topic, c.data)); o != c.want {
				t.Errorf("%s: %s, want %s", c.name, o, c.want)
			}
		}
		soon, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if o := status.Of(n.Publish(soon, testTopic, make([]byte, MaxMessage))); o != status.RateLimit {
			t.Errorf("with a deadline too soon: %s", o)
		}
		n.stop()
		if o := status.Of(n.Publish(t.Context(), testTopic, nil)); o != status.Draining {
			t.Errorf("after Run: %s", o)
		}
	})
}

// TestSlowValidator checks that a validator that waits for its deadline delays or loses messages of
// its own topic only.
func TestSlowValidator(t *testing.T) {
	in(t, 2, func(t *testing.T, sn *simNet) {
		const stuck = "/allium/1/stuck"
		never := func(context.Context, Message) { t.Error("handled") }
		nodes := []*node{
			start(t, sn.Hosts[0], func(c *Config, _ *Topic) { c.Validators, c.ValidateTimeout = 8, time.Second }, Topic{
				Name: stuck, Handle: never, Validate: func(ctx context.Context, _ Message) error {
					<-ctx.Done()
					return ctx.Err()
				},
			}),
			start(t, sn.Hosts[1], nil, Topic{
				Name: stuck, Handle: never, Validate: func(context.Context, Message) error { return nil },
			}),
		}
		defer stopAll(nodes)
		sn.Connect(0, 1)
		time.Sleep(3 * heartbeat)
		const count = 20
		for i := range count {
			for _, topic := range []string{stuck, testTopic} {
				if err := nodes[1].Publish(t.Context(), topic, fmt.Appendf(nil, "%d", i)); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(2 * standingInterval)
		if n := nodes[0].n.Load(); n != count {
			t.Errorf("%d of %d messages of the other topic were handled", n, count)
		}
		late, full := nodes[0].value(t, "gossip_refused_total", "outcome", "timeout"), nodes[0].drops(t, dropThrottled)
		if late != 8 || full != count-8 || late != nodes[0].drops(t, dropIgnored) {
			t.Errorf("%g late and %g had no place, want 8 and %d", late, full, count-8)
		}
		if low := nodes[0].value(t, "gossip_peer_standing", "standing", standGood); low != 1 {
			t.Error("the sender lost score")
		}
		nodes[0].balance(t)
	})
}

// TestHandlerPanics checks that a handler that panics loses one message only.
func TestHandlerPanics(t *testing.T) {
	in(t, 2, func(t *testing.T, sn *simNet) {
		nodes := []*node{start(t, sn.Hosts[0], nil), start(t, sn.Hosts[1], func(c *Config, topic *Topic) {
			c.Workers = 1
			handle := topic.Handle
			topic.Handle = func(ctx context.Context, m Message) {
				if string(m.Data) == "panic" {
					panic("a bug")
				}
				handle(ctx, m)
			}
		})}
		defer stopAll(nodes)
		sn.Connect(0, 1)
		time.Sleep(3 * heartbeat)
		for _, data := range []string{"panic", "after"} {
			if err := nodes[0].Publish(t.Context(), testTopic, []byte(data)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(heartbeat)
		if _, ok := nodes[1].has("after"); !ok || nodes[1].value(t, "gossip_panics_total") != 1 {
			t.Errorf("handled the next: %t; panics: %g", ok, nodes[1].value(t, "gossip_panics_total"))
		}
	})
}

// TestStopInBurst stops nodes while all of them publish. Run returns at once, no validator or handler
// runs afterwards, Publish returns draining, and a node that starts again receives messages again.
func TestStopInBurst(t *testing.T) {
	in(t, 5, func(t *testing.T, sn *simNet) {
		var nodes []*node
		down := make([]atomic.Bool, len(sn.Hosts))
		for i, h := range sn.Hosts {
			nodes = append(nodes, start(t, h, func(_ *Config, topic *Topic) {
				handle, validate := topic.Handle, topic.Validate
				topic.Handle = func(ctx context.Context, m Message) {
					if down[i].Load() {
						t.Errorf("node %d handles after it stopped", i)
					}
					handle(ctx, m)
				}
				topic.Validate = func(ctx context.Context, m Message) error {
					if down[i].Load() {
						t.Errorf("node %d validates after it stopped", i)
					}
					return validate(ctx, m)
				}
			}))
			for j := range i {
				sn.Connect(i, j)
			}
		}
		defer stopAll(nodes)
		time.Sleep(3 * heartbeat)
		var wg sync.WaitGroup
		for i, n := range nodes {
			for j := range 300 {
				wg.Go(func() {
					switch o := status.Of(n.Publish(t.Context(), testTopic, fmt.Appendf(nil, "%d from %d", j, i))); o {
					case status.OK, status.RateLimit, status.Draining:
					default:
						t.Errorf("publish: %s", o)
					}
				})
			}
		}
		time.Sleep(roundTrip / 2)
		at := time.Now()
		for i := range 3 {
			nodes[i].stop()
			down[i].Store(true)
		}
		if d := time.Since(at); d > time.Second {
			t.Errorf("stopping took %s", d)
		}
		wg.Wait()
		time.Sleep(time.Minute) // the others forget what they lost to the burst
		for i := range 3 {
			down[i].Store(false)
			nodes[i].run(t)
		}
		time.Sleep(10 * heartbeat)
		for i, n := range nodes {
			data := fmt.Sprintf("again %d", i)
			if err := n.Publish(t.Context(), testTopic, []byte(data)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(heartbeat)
			for j, o := range nodes {
				if _, ok := o.has(data); !ok && i != j {
					t.Errorf("node %d did not hear %q", j, data)
				}
			}
		}
	})
}

// TestLoopback runs gossip over real TCP connections.
func TestLoopback(t *testing.T) {
	var nodes []*node
	for i := range 3 {
		h, err := libp2p.New(libp2p.ListenAddrStrings("/ip4/127.0.0.1/tcp/0"), libp2p.DisableMetrics())
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		n := start(t, h, nil)
		defer n.stop()
		nodes = append(nodes, n)
		if i > 0 { // a chain
			err := h.Connect(t.Context(), peer.AddrInfo{ID: nodes[i-1].host.ID(), Addrs: nodes[i-1].host.Addrs()})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for try := 0; ; try++ { // until the mesh has formed
		data := fmt.Sprintf("try %d", try)
		if err := nodes[0].Publish(ctx, testTopic, []byte(data)); err != nil {
			t.Fatal(err)
		}
		tick, done := context.WithTimeout(ctx, 200*time.Millisecond)
		<-tick.Done()
		done()
		if nodes[2].n.Load() > 0 {
			return
		}
		if ctx.Err() != nil {
			t.Fatal("nothing came through")
		}
	}
}
