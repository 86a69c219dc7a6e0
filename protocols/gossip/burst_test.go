package gossip

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	pb "github.com/libp2p/go-libp2p-pubsub/pb"

	"allium/protocols/status"
)

// size returns how many messages a burst has and how many nodes there are.
func size() (burst, crowd int) {
	if testing.Short() {
		return 200, 4
	}
	return 1000, 20
}

// TestBurstPaced publishes 1,000 messages one after the other: the publisher is
// held to its rate, no call waits longer than publish_wait, and no peer drops
// a message because a budget is spent.
func TestBurstPaced(t *testing.T) {
	burst, crowd := size()
	in(t, crowd, func(t *testing.T, sn *simNet) {
		nodes := sn.startAll(nil)
		defer stopAll(nodes)
		sn.weave(4)
		time.Sleep(3 * heartbeat)
		began := time.Now()
		for i := range burst {
			at := time.Now()
			if err := nodes[0].Publish(t.Context(), testTopic, fmt.Appendf(nil, "message %d", i)); err != nil {
				t.Fatal(err)
			}
			if d := time.Since(at); d > nodes[0].cfg.PublishWait {
				t.Fatalf("publication %d took %s", i, d)
			}
		}
		c := nodes[0].cfg
		d := time.Since(began)
		want := time.Duration(int64(burst)-c.BurstFrames) * time.Second / time.Duration(c.PublishRate)
		if d < want-time.Second || d > want+time.Second {
			t.Errorf("took %s, want %s", d, want)
		}
		time.Sleep(6 * heartbeat) // what was lost is advertised and asked for
		for i, n := range nodes[1:] {
			if n.n.Load() != int64(burst) {
				t.Errorf("node %d got %d of %d", i+1, n.n.Load(), burst)
			}
		}
		balanceAll(t, nodes)
	})
}

// TestBurstAtOnce publishes 1,000 messages at once, from one node and from many:
// every call returns within publish_wait, with success or a typed refusal;
// what peers drop beyond their budgets is counted; and gossip goes on.
func TestBurstAtOnce(t *testing.T) {
	burst, crowd := size()
	for _, from := range []int{1, 10} {
		t.Run(fmt.Sprintf("from %d", from), func(t *testing.T) {
			in(t, crowd, func(t *testing.T, sn *simNet) {
				nodes := sn.startAll(nil)
				defer stopAll(nodes)
				sn.weave(4)
				time.Sleep(3 * heartbeat)

				var mu sync.Mutex
				outcomes := map[status.Outcome]int{}
				var wg sync.WaitGroup
				began := time.Now()
				for i := range burst {
					wg.Go(func() {
						err := nodes[i%min(from, len(nodes))].Publish(t.Context(), testTopic,
							fmt.Appendf(nil, "message %d", i))
						mu.Lock()
						defer mu.Unlock()
						outcomes[status.Of(err)]++
					})
				}
				wg.Wait()
				if d := time.Since(began); d > nodes[0].cfg.PublishWait+100*time.Millisecond {
					t.Errorf("the burst took %s", d)
				}
				if outcomes[status.OK]+outcomes[status.RateLimit]+outcomes[status.Busy] != burst {
					t.Errorf("outcomes: %v", outcomes)
				}
				time.Sleep(6 * heartbeat)
				var handled, dropped float64
				for _, n := range nodes {
					handled += float64(n.n.Load())
					dropped += n.drops(t, dropBurst) + n.drops(t, dropTotal)
				}
				t.Logf(
					"from %d: %v; %g of %d handled, %g copies dropped for want of budget",
					from,
					outcomes,
					handled,
					(len(nodes)-1)*outcomes[status.OK],
					dropped,
				)
				balanceAll(t, nodes)

				data := []byte("after the burst")
				if err := nodes[0].Publish(t.Context(), testTopic, data); err != nil {
					t.Fatal(err)
				}
				time.Sleep(5 * heartbeat)
				for i, n := range nodes[1:] {
					if _, ok := n.has(string(data)); !ok {
						t.Errorf("node %d did not hear the message after the burst", i+1)
					}
				}
			})
		})
	}
}

// TestIngressFull checks that a slow handler loses messages, which are counted, and stops neither the
// relay nor the publisher.
func TestIngressFull(t *testing.T) {
	in(t, 3, func(t *testing.T, sn *simNet) {
		slow := start(t, sn.Hosts[0], func(c *Config, topic *Topic) {
			c.Ingress, c.Workers, c.HandleTimeout = 4, 1, time.Minute
			handle := topic.Handle
			topic.Handle = func(ctx context.Context, m Message) {
				select {
				case <-ctx.Done():
				case <-time.After(10 * time.Second):
				}
				handle(ctx, m)
			}
		})
		nodes := []*node{slow, start(t, sn.Hosts[1], nil), start(t, sn.Hosts[2], nil)}
		defer stopAll(nodes)
		sn.Connect(0, 1) // 1 and 2 hear each other through the slow one alone
		sn.Connect(0, 2)
		time.Sleep(3 * heartbeat)
		for i := range 50 {
			if err := nodes[1].Publish(t.Context(), testTopic, fmt.Appendf(nil, "message %d", i)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(5 * time.Second)
		if n := nodes[2].n.Load(); n != 50 {
			t.Errorf("%d of 50 relayed", n)
		}
		time.Sleep(time.Minute)
		handled, dropped := slow.n.Load(), slow.drops(t, dropIngress)
		if handled != 5 || dropped != 45 { // one with the worker, four waiting
			t.Errorf("%d handled and %g dropped, want 5 and 45", handled, dropped)
		}
		balanceAll(t, nodes)
	})
}

// TestValidateQueueFull checks that messages are dropped and counted when the queue for signature
// checks is full. pubsub then throttles a peer that sends few useful messages; afterwards all
// messages get through again.
func TestValidateQueueFull(t *testing.T) {
	in(t, 3, func(t *testing.T, sn *simNet) {
		narrow := func(c *Config, topic *Topic) {
			c.ValidateQueue, topic.Validate = 1, judge
		}
		nodes := []*node{start(t, sn.Hosts[0], narrow), start(t, sn.Hosts[1], narrow)}
		defer stopAll(nodes)
		victim := nodes[0]
		sn.Connect(0, 1)
		l := newLiar(t, sn.Hosts[2], sn.Hosts[0], true)
		time.Sleep(3 * heartbeat)
		for i := range 40 { // in batches, which the loop queues faster than signatures are checked
			var ms []*pb.Message
			for j := range 40 {
				ms = append(ms, l.message(testTopic, fmt.Appendf(nil, "stale %d of %d", j, i)))
			}
			l.publish(ms...)
			time.Sleep(200 * time.Millisecond)
		}
		if full, gated := victim.drops(t, dropQueue), victim.drops(t, dropGated); full == 0 || gated == 0 {
			t.Errorf("%g found no room, %g were held off", full, gated)
		}
		time.Sleep(2 * time.Minute) // pubsub's quiet time
		if err := nodes[1].Publish(t.Context(), testTopic, []byte("hello")); err != nil {
			t.Fatal(err)
		}
		l.publish(l.message(testTopic, []byte("hello from the third")))
		time.Sleep(heartbeat)
		if victim.n.Load() != 2 {
			t.Errorf("%d of 2 messages were handled afterwards", victim.n.Load())
		}
		victim.balance(t)
	})
}

// TestPartition splits 20 nodes in halves. Each half goes on alone, and after the split is healed
// every node hears every other.
func TestPartition(t *testing.T) {
	in(t, 20, func(t *testing.T, sn *simNet) {
		nodes := sn.startAll(nil)
		defer stopAll(nodes)
		sn.weave(4)
		time.Sleep(3 * heartbeat)
		say := func(i int, data string) {
			t.Helper()
			if err := nodes[i].Publish(t.Context(), testTopic, []byte(data)); err != nil {
				t.Fatal(err)
			}
		}
		heard := func(data string) (count int) {
			for _, n := range nodes {
				if _, ok := n.has(data); ok {
					count++
				}
			}
			return count
		}
		for i := range 10 {
			sn.Split(i, "away")
		}
		time.Sleep(time.Minute) // connections over the split die
		say(0, "from one side")
		say(19, "from the other")
		time.Sleep(5 * heartbeat)
		if a, b := heard("from one side"), heard("from the other"); a != 9 || b != 9 {
			t.Errorf("%d and %d heard their side, want 9", a, b)
		}
		for i := range 10 {
			sn.Split(i, nil)
		}
		for i := range 10 { // in a node, discovery does this
			sn.Connect(i, i+10)
		}
		time.Sleep(5 * heartbeat)
		say(3, "healed")
		time.Sleep(5 * heartbeat)
		if n := heard("healed"); n != 19 {
			t.Errorf("%d heard the message after the split, want 19", n)
		}
		for _, n := range nodes {
			n.balance(t)
		}
	})
}
