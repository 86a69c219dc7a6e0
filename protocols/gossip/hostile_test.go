package gossip

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	pb "github.com/libp2p/go-libp2p-pubsub/pb"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/status"
)

// TestHostile checks that a message that breaks a rule is refused under its reason and reaches no
// handler and no other node. After a few of them, nothing that their sender sends is read, whether
// or not the sender accepts streams itself.
func TestHostile(t *testing.T) {
	topic := testTopic
	for _, c := range []struct {
		name, reason string
		forgiven     bool // the sender loses no score
		message      func(l *liar, victim *node, i int) *pb.Message
	}{
		{"unsigned", dropUnsigned, false, func(l *liar, _ *node, i int) *pb.Message {
			m := l.message(topic, fmt.Appendf(nil, "%d", i))
			m.Signature = nil
			return m
		}},
		{"changed", dropForged, false, func(l *liar, _ *node, i int) *pb.Message {
			m := l.message(topic, fmt.Appendf(nil, "%d", i))
			m.Data = append(m.Data, '!')
			return m
		}},
		{"in another's name", dropForged, false, func(l *liar, victim *node, i int) *pb.Message {
			m := &pb.Message{
				Topic: &topic, Data: fmt.Appendf(nil, "%d", i), From: []byte(otherPeer(t)), Seqno: []byte("12345678"),
			}
			l.sign(m)
			return m
		}},
		{"in the victim's name", dropSelf, true, func(l *liar, victim *node, i int) *pb.Message {
			m := &pb.Message{
				Topic: &topic, Data: fmt.Appendf(nil, "%d", i), From: []byte(victim.host.ID()),
				Seqno: []byte("12345678"),
			}
			l.sign(m)
			return m
		}},
		{"without an author", dropForged, false, func(l *liar, _ *node, i int) *pb.Message {
			m := &pb.Message{Topic: &topic, Data: fmt.Appendf(nil, "%d", i)}
			l.sign(m)
			return m
		}},
		{"too large", dropOversize, false, func(l *liar, _ *node, i int) *pb.Message {
			return l.message(topic, bytes.Repeat([]byte{byte(i)}, MaxMessage+1))
		}},
		{"unknown topic", dropTopic, false, func(l *liar, _ *node, i int) *pb.Message {
			return l.message("/allium/1/other", fmt.Appendf(nil, "%d", i))
		}},
		{"no topic", dropTopic, false, func(l *liar, _ *node, i int) *pb.Message {
			m := l.message(topic, fmt.Appendf(nil, "%d", i))
			m.Topic = nil
			return m
		}},
		{"bad", dropRejected, false, func(l *liar, _ *node, i int) *pb.Message {
			return l.message(topic, fmt.Appendf(nil, "bad %d", i))
		}},
		{"without outcome", dropRejected, false, func(l *liar, _ *node, i int) *pb.Message {
			return l.message(topic, fmt.Appendf(nil, "odd %d", i))
		}},
		{"stale", dropIgnored, true, func(l *liar, _ *node, i int) *pb.Message {
			return l.message(topic, fmt.Appendf(nil, "stale %d", i))
		}},
		{"panic", dropIgnored, true, func(l *liar, _ *node, i int) *pb.Message {
			return l.message(topic, fmt.Appendf(nil, "panic %d", i))
		}},
	} {
		for _, listens := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, listens=%t", c.name, listens), func(t *testing.T) {
				in(t, 3, func(t *testing.T, sn *simNet) {
					judged := func(_ *Config, topic *Topic) { topic.Validate = judge }
					nodes := []*node{start(t, sn.Hosts[0], judged), start(t, sn.Hosts[1], judged)}
					defer stopAll(nodes)
					victim := nodes[0]
					sn.Connect(0, 1)
					l := newLiar(t, sn.Hosts[2], sn.Hosts[0], listens)
					time.Sleep(3 * heartbeat)

					const lies = 8
					for i := range lies {
						l.publish(c.message(l, victim, i))
						time.Sleep(heartbeat / 10)
					}
					time.Sleep(2 * standingInterval)
					refused, unread := victim.drops(t, c.reason), victim.drops(t, dropGraylist)
					if refused < 1 || refused+unread != lies {
						t.Errorf("%g refused as %s and %g unread, want %d together", refused, c.reason, unread, lies)
					}
					l.publish(l.message(topic, []byte("the truth")))
					time.Sleep(2 * heartbeat)
					_, heard := victim.has("the truth")
					if heard != c.forgiven {
						t.Errorf("heard afterwards: %t, want %t", heard, c.forgiven)
					}
					if low := victim.value(t, "gossip_peer_standing", "standing", standGraylisted); low > 0 &&
						c.forgiven ||
						low < 1 && !c.forgiven && listens {
						t.Errorf("%g peers are graylisted", low)
					}
					want := int64(0)
					if heard {
						want = 1
					}
					for i, n := range nodes {
						if n.n.Load() != want {
							t.Errorf("node %d handled %d messages, want %d", i, n.n.Load(), want)
						}
						n.balance(t)
					}
					// The liar's messages do not affect the messages of others.
					if err := nodes[1].Publish(t.Context(), testTopic, []byte("hello")); err != nil {
						t.Fatal(err)
					}
					time.Sleep(2 * heartbeat)
					if _, ok := victim.has("hello"); !ok {
						t.Error("an honest message was not heard")
					}
				})
			})
		}
	}
}

// judge is a validator whose answer depends on the first word of the message.
func judge(_ context.Context, m Message) error {
	switch s := string(m.Data); {
	case strings.HasPrefix(s, "bad"):
		return status.Errorf(status.BadSignature, "bad")
	case strings.HasPrefix(s, "odd"):
		return errors.New("an error without an outcome")
	case strings.HasPrefix(s, "stale"):
		return status.Errorf(status.Stale, "stale")
	case strings.HasPrefix(s, "panic"):
		panic(s)
	}
	return nil
}

// otherPeer returns the ID of a peer that is not in the network. The ID contains the peer's key.
func otherPeer(t *testing.T) peer.ID {
	t.Helper()
	id, err := peer.Decode("12D3KooWDpJ7As7BWAwRMfu1VU2WCqNjvq387JEYKDBj4kx6nXTN")
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// TestStolenMessage checks that a peer that signs another's data as its own, and sends it first, does
// not suppress the true message.
func TestStolenMessage(t *testing.T) {
	in(t, 3, func(t *testing.T, sn *simNet) {
		author := sn.Hosts[1].ID()
		own := func(_ *Config, topic *Topic) {
			topic.Validate = func(_ context.Context, m Message) error {
				if m.From != author {
					return status.Errorf(status.BadSignature, "not the author's")
				}
				return nil
			}
		}
		nodes := []*node{start(t, sn.Hosts[0], own), start(t, sn.Hosts[1], own)}
		defer stopAll(nodes)
		sn.Connect(0, 1)
		l := newLiar(t, sn.Hosts[2], sn.Hosts[0], true)
		time.Sleep(3 * heartbeat)
		l.publish(l.message(testTopic, []byte("mine")))
		time.Sleep(heartbeat)
		if err := nodes[1].Publish(t.Context(), testTopic, []byte("mine")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(heartbeat)
		if _, ok := nodes[0].has("mine"); !ok || nodes[0].drops(t, dropRejected) != 1 {
			t.Errorf("heard the true message: %t; rejected: %g", ok, nodes[0].drops(t, dropRejected))
		}
	})
}

// TestIgnoredAuthor: what an ignored peer says counts for nothing, also when another peer passes it on, until
// that ends.
func TestIgnoredAuthor(t *testing.T) {
	in(t, 3, func(t *testing.T, sn *simNet) {
		nodes := sn.startAll(nil)
		var ignored atomic.Bool
		nodes[2].stop()
		nodes[2].ignores = func(id peer.ID) bool { return ignored.Load() && id == nodes[0].host.ID() }
		nodes[2].run(t)
		defer stopAll(nodes)
		sn.Connect(0, 1)
		sn.Connect(1, 2)
		time.Sleep(3 * heartbeat)
		for said, is := range map[string]bool{"ignored": true, "heard": false} {
			ignored.Store(is)
			for from, n := range nodes[:2] {
				if err := n.Publish(t.Context(), testTopic, fmt.Appendf(nil, "%s %d", said, from)); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(2 * time.Second)
			if _, ok := nodes[2].has(said + " 0"); ok == is {
				t.Errorf("%s: it heard the first node: %t", said, ok)
			}
			if _, ok := nodes[2].has(said + " 1"); !ok {
				t.Errorf("%s: it did not hear the second node", said)
			}
		}
	})
}

// TestHugeFrame checks that an RPC beyond a limit, or one of random bytes, ends its stream and nothing
// else.
func TestHugeFrame(t *testing.T) {
	for name, send := range map[string]func(l *liar) error{
		"huge": func(l *liar) error {
			return l.send(&pb.RPC{Publish: []*pb.Message{l.message(testTopic, make([]byte, MaxMessage+2*maxOverhead))}})
		},
		"control": func(l *liar) error {
			topic := testTopic
			have := &pb.ControlIHave{TopicID: &topic, MessageIDs: []string{strings.Repeat("x", maxControl)}}
			return l.send(&pb.RPC{Control: &pb.ControlMessage{Ihave: []*pb.ControlIHave{have}}})
		},
		"noise": func(l *liar) error {
			_, err := l.stream.Write([]byte{4, 0xff, 0xff, 0xff, 0xff})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, 3, func(t *testing.T, sn *simNet) {
				nodes := []*node{start(t, sn.Hosts[0], nil), start(t, sn.Hosts[1], nil)}
				defer stopAll(nodes)
				sn.Connect(0, 1)
				l := newLiar(t, sn.Hosts[2], sn.Hosts[0], true)
				time.Sleep(3 * heartbeat)
				at := time.Now()
				_ = l.stream.SetDeadline(at.Add(time.Minute))
				err := send(l)
				if err == nil {
					_, err = l.stream.Read(make([]byte, 1))
				}
				if err == nil || time.Since(at) > 10*time.Second {
					t.Errorf("the stream was not ended: %v after %s", err, time.Since(at))
				}
				if err := nodes[1].Publish(t.Context(), testTopic, []byte("hello")); err != nil {
					t.Fatal(err)
				}
				time.Sleep(heartbeat)
				if nodes[0].n.Load() != 1 {
					t.Error("an honest message was not heard")
				}
			})
		})
	}
}

// TestFlood checks that a peer that floods valid messages gets through only what its budget allows and
// is not graylisted. Every message that five others publish meanwhile reaches all of them.
func TestFlood(t *testing.T) {
	in(t, 6, func(t *testing.T, sn *simNet) {
		var nodes []*node
		for i := range 5 {
			nodes = append(nodes, start(t, sn.Hosts[i], nil))
			for j := range i {
				sn.Connect(i, j)
			}
		}
		defer stopAll(nodes)
		l := newLiar(t, sn.Hosts[5], sn.Hosts[0], true)
		time.Sleep(3 * heartbeat)
		flood := 4000
		if testing.Short() {
			flood = 1200
		}
		honest := flood / 400
		began := time.Now()
		for i := range flood / 20 {
			var ms []*pb.Message
			for j := range 20 {
				ms = append(ms, l.message(testTopic, fmt.Appendf(nil, "flood %d", i*20+j)))
			}
			l.publish(ms...)
			if i%20 == 0 {
				for k, n := range nodes {
					if err := n.Publish(t.Context(), testTopic,
						fmt.Appendf(nil, "honest %d of %d", i/20, k)); err != nil {
						t.Fatal(err)
					}
				}
			}
			time.Sleep(10 * time.Millisecond)
		}
		took := time.Since(began)
		time.Sleep(5 * heartbeat)
		for k := range nodes {
			for i := range honest {
				data := fmt.Sprintf("honest %d of %d", i, k)
				for j, n := range nodes {
					if _, ok := n.has(data); !ok && j != k {
						t.Errorf("node %d did not hear %q", j, data)
					}
				}
			}
		}
		c := nodes[0].cfg
		most := float64(c.BurstFrames) + float64(c.PeerRate)*(took+5*heartbeat).Seconds()
		got := float64(flood) - nodes[0].drops(t, dropBurst)
		t.Logf("%g of %d came through in %s", got, flood, took)
		if got > most || got < float64(c.BurstFrames) {
			t.Errorf("the flood brought %g messages, want %d to %g", got, c.BurstFrames, most)
		}
		for _, n := range nodes {
			n.balance(t)
			if low := n.value(t, "gossip_peer_standing", "standing", standGraylisted); low != 0 {
				t.Errorf("%g peers are graylisted", low)
			}
		}
	})
}
