package session_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/limits"
	"allium/internal/testkit"
	"allium/protocols/oap"
	"allium/protocols/session"
	"allium/protocols/status"
)

// large answers with as many bytes as the request says, after as long as it says.
func large(s *session.Service) {
	s.Handle(oap.ProtoIndex, func(_ context.Context, _ peer.ID, r *session.Request) session.Response {
		var q struct {
			session.Envelope
			Size int `json:"size"`
			MS   int `json:"ms"`
		}
		if err := r.Decode(&q); err != nil {
			return session.Response{Err: err}
		}
		time.Sleep(time.Duration(q.MS) * time.Millisecond)
		return session.Response{Payload: []byte(strings.Repeat("z", q.Size))}
	})
}

// TestEgressPolicyCalls: of calls to a peer that reads nothing, reject lets the
// newest wait and refuses it; drop_oldest refuses the oldest that is not being
// written.
func TestEgressPolicyCalls(t *testing.T) {
	for _, tc := range []struct {
		name    string
		policy  session.Overflow
		frames  bool // what is short: places among the frames, or in flight
		refused int
		limit   string
		after   time.Duration
	}{
		{"in flight, reject", session.Reject, false, 3, "session.max_inflight", 2 * time.Second},
		{"in flight, drop_oldest", session.DropOldest, false, 2, "session.max_inflight", 0},
		{"frames, reject", session.Reject, true, 3, "session.egress_frames", 2 * time.Second},
		{"frames, drop_oldest", session.DropOldest, true, 2, "session.egress_frames", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, testkit.Options{Window: 8 << 10}, func(t *testing.T, net *testkit.Network) {
				cfg := session.DefaultConfig()
				cfg.EgressPolicy, cfg.PermitWait = tc.policy, 2*time.Second
				cfg.MaxInflight, cfg.EgressFrames = 2, 64
				if tc.frames {
					cfg.MaxInflight, cfg.EgressFrames = 3, 3
				}
				n := start(t, net.Host("a"), cfg, large)
				defer n.stop()
				if tc.frames { // an answer that is not read holds one
					w := dial(t, net.Host("b"), "a")
					w.hello()
					w.ask(1, `{"op":"x","size":100000}`)
					synctest.Wait()
				}
				in := acceptor(t, net, "b")
				c := &calls{n: n}
				body := `{"op":"x","text":"` + hex.EncodeToString([]byte(noise(32_700))) + `"}` // fills the window
				results := []*result{nil, c.go1(t.Context(), body)}
				w := <-in
				w.greet(32)
				synctest.Wait() // it is being written
				results = append(results, c.go1(t.Context(), `{"op":"second"}`), c.go1(t.Context(), `{"op":"third"}`))
				time.Sleep(3 * time.Second)
				for range 2 {
					f := w.recv()
					w.answer(f.CorrID, 200, "ok")
				}
				c.wg.Wait()
				for i, r := range results[1:] {
					if i+1 != tc.refused {
						r.want(t, status.OK, "ok")
						continue
					}
					r.want(t, status.Busy, tc.limit)
					if r.took != tc.after {
						t.Errorf("call %d was refused after %s", i+1, r.took)
					}
				}
				if left := n.Drain(t.Context(), time.Second); tc.frames == false && left != 0 {
					t.Errorf("%d are in flight for ever", left)
				}
			})
		})
	}
}

// TestEgressPolicyAnswers: of answers to a peer that reads nothing, the newest
// becomes busy, or the oldest that is not being written; every request has its
// answer.
func TestEgressPolicyAnswers(t *testing.T) {
	for policy, refused := range map[session.Overflow]uint64{session.Reject: 4, session.DropOldest: 2} {
		t.Run(string(policy), func(t *testing.T) {
			bubble(t, testkit.Options{Window: 8 << 10}, func(t *testing.T, net *testkit.Network) {
				cfg := session.DefaultConfig()
				cfg.EgressPolicy, cfg.PeerEgressBytes = policy, 1<<20
				n := start(t, net.Host("a"), cfg, large)
				defer n.stop()
				w := dial(t, net.Host("b"), "a")
				w.hello()
				for corr := range uint64(4) {
					w.ask(corr+1, `{"op":"x","size":300000}`)
					synctest.Wait()
				}
				for corr := range uint64(4) {
					if corr+1 == refused {
						w.wantAnswer(corr+1, 429, `"limit":"session.peer_egress_bytes"`)
					} else {
						w.wantAnswer(corr+1, 200, "zzz")
					}
				}
				synctest.Wait()
				for _, l := range n.limits.Snapshot() {
					switch l.Name {
					case "session.egress", "session.egress_frames", "session.peer_egress_bytes":
						if l.Current != 0 {
							t.Errorf("taken for ever: %+v", l)
						}
						if l.Name == "session.peer_egress_bytes" && l.Rejected != 1 {
							t.Errorf("%+v", l)
						}
					}
				}
			})
		})
	}
}

// TestEgressOfTheNode: peers that read nothing, and hold all the bytes there are
// for all of them, make room for one that holds less, until it holds as much.
func TestEgressOfTheNode(t *testing.T) {
	for _, policy := range []session.Overflow{session.Reject, session.DropOldest} {
		t.Run(string(policy), func(t *testing.T) {
			bubble(t, testkit.Options{Window: 8 << 10}, func(t *testing.T, net *testkit.Network) {
				cfg := session.DefaultConfig()
				cfg.EgressPolicy, cfg.PeerEgressBytes, cfg.EgressBytes = policy, 1<<20, 2<<20
				n := start(t, net.Host("a"), cfg, large)
				defer n.stop()
				var wires []*wire
				for i := range 3 { // the first two fill what there is
					w := dial(t, net.Host(evils[i]), "a")
					w.hello()
					for corr := range uint64(3) {
						w.ask(corr+1, `{"op":"x","size":300000}`)
						synctest.Wait()
					}
					wires = append(wires, w)
				}
				for i, refused := range []uint64{2, 2, 3} { // what is being written stays; who has most asks in vain
					for corr := range uint64(3) {
						if corr+1 == refused {
							wires[i].wantAnswer(corr+1, 429, `"limit":"session.egress"`)
						} else {
							wires[i].wantAnswer(corr+1, 200, "zzz")
						}
					}
				}
				synctest.Wait()
				for _, l := range n.limits.Snapshot() {
					if l.Current != 0 && l.Kind == limits.KindBudget {
						t.Errorf("taken for ever: %+v", l)
					}
					if l.Name == "session.egress" && l.Rejected != 3 {
						t.Errorf("%+v", l)
					}
				}
			})
		})
	}
}

// TestSessionsOfOnePeer: over many connections a peer keeps its newest.
func TestSessionsOfOnePeer(t *testing.T) {
	bubble(t, testkit.Options{}, func(t *testing.T, net *testkit.Network) {
		cfg := session.DefaultConfig()
		cfg.PeerSessions = 2
		n := start(t, net.Host("a"), cfg, echo)
		defer n.stop()
		var wires []*wire
		for i := range 4 {
			net.Beside("a", "b")
			w := dial(t, net.Host("b"), "a")
			w.hello()
			time.Sleep(time.Millisecond)
			wires = append(wires, w)
			if got := len(n.Sessions()); got != min(i+1, 2) {
				t.Errorf("%d sessions after %d", got, i+1)
			}
		}
		for i, w := range wires {
			if i < 2 {
				w.wantReset(network.StreamSupplanted)
				continue
			}
			w.ask(1, fmt.Sprintf(`{"op":"x%d"}`, i))
			w.wantAnswer(1, 200, fmt.Sprint("x", i))
		}
		if got := n.metric(t, "session_supplanted_total"); got != 2 {
			t.Errorf("%v are counted", got)
		}
	})
}

// TestHandshakesAreBounded: who says nothing keeps out others that have not
// said HELLO, and nobody who has.
func TestHandshakesAreBounded(t *testing.T) {
	bubble(t, testkit.Options{}, func(t *testing.T, net *testkit.Network) {
		cfg := session.DefaultConfig()
		cfg.Handshakes = 2
		n := start(t, net.Host("a"), cfg, echo)
		defer n.stop()
		for i := range 4 { // each gives its place back with its HELLO
			dial(t, net.Host(peer.ID(fmt.Sprint("good ", i))), "a").hello()
		}
		for i := range 2 {
			dial(t, net.Host(peer.ID(fmt.Sprint("silent ", i))), "a")
			synctest.Wait()
		}
		dial(t, net.Host("late"), "a").wantReset(network.StreamResourceLimitExceeded)
		time.Sleep(cfg.HandshakeTimeout)
		synctest.Wait()
		dial(t, net.Host("late"), "a").hello()
		if got := n.metric(t, "busy_rejections_total", "session.handshakes"); got != 1 {
			t.Errorf("%v refusals are counted", got)
		}
	})
}
