package session_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/testkit"
	"allium/protocols/oap"
	"allium/protocols/session"
	"allium/protocols/status"
)

// TestAcceptor is the acceptor's state machine: what a peer does, and what the
// node does then. The index protocol echoes; "repair" waits until its context
// ends.
func TestAcceptor(t *testing.T) {
	cfg := session.DefaultConfig()
	cfg.MaxInflight = 4
	for _, tc := range []struct {
		name     string
		run      func(t *testing.T, n *node, w *wire)
		rejected oap.Reason // counted once in frame_reject_total; ReasonTruncated with none set means none
		none     bool
	}{
		{name: "HELLO does not come", none: true, run: func(t *testing.T, n *node, w *wire) {
			elapsed(t, 3*time.Second, func() { w.wantReset(0) })
			if n.metric(t, "handshake_timeouts_total") != 1 || n.metric(t, "session_open_total") != 0 {
				t.Error("not counted as a handshake timeout")
			}
		}},
		{name: "HELLO comes a byte a second", none: true, run: func(t *testing.T, n *node, w *wire) {
			var wg sync.WaitGroup
			wg.Go(func() {
				p, _ := encode(oap.Frame{Header: oap.Header{Flags: whole}, Payload: []byte(`{}`)})
				for i := range 3 {
					time.Sleep(time.Second - time.Nanosecond)
					_, _ = w.stream.Write(p[i : i+1])
				}
			})
			elapsed(t, 3*time.Second, func() { w.wantReset(0) })
			wg.Wait()
		}},
		{name: "a request before HELLO", rejected: oap.ReasonBadHello, run: func(t *testing.T, n *node, w *wire) {
			w.ask(1, `{"op":"x"}`)
			w.wantReset(reset(oap.ReasonBadHello))
		}},
		{name: "PING before HELLO", rejected: oap.ReasonBadHello, run: func(t *testing.T, n *node, w *wire) {
			w.send(oap.Header{Flags: whole, CorrID: 1}, "ping")
			w.wantReset(reset(oap.ReasonBadHello))
		}},
		{name: "HELLO as a response", rejected: oap.ReasonBadHello, run: func(t *testing.T, n *node, w *wire) {
			w.send(oap.Header{Flags: oap.FlagResp | oap.FlagEnd}, `{}`)
			w.wantReset(reset(oap.ReasonBadHello))
		}},
		{name: "HELLO is not JSON", rejected: oap.ReasonBadHello, run: func(t *testing.T, n *node, w *wire) {
			w.send(oap.Header{Flags: whole}, `{"ua":1}`)
			w.wantReset(reset(oap.ReasonBadHello))
		}},
		{name: "HELLO twice", rejected: oap.ReasonBadHello, run: func(t *testing.T, n *node, w *wire) {
			w.hello()
			w.send(oap.Header{Flags: whole}, `{"ua":"x","features":[]}`)
			w.wantReset(reset(oap.ReasonBadHello))
			synctest.Wait()
			if n.metric(t, "session_open_total") != 1 || n.metric(t, "session_close_total") != 1 {
				t.Error("not opened and closed once")
			}
		}},
		{name: "a request", none: true, run: func(t *testing.T, n *node, w *wire) {
			w.hello()
			w.ask(7, `{"op":"x"}`)
			w.wantAnswer(7, 200, `{"op":"x"}`)
			if i := n.Sessions(); len(i) != 1 || i[0].Peer != "b" || i[0].Agent != "wire/1" ||
				i[0].Dir != network.DirInbound {
				t.Errorf("%+v", i)
			}
		}},
		{name: "corr_id in flight", rejected: oap.ReasonDupCorr, run: func(t *testing.T, n *node, w *wire) {
			w.hello()
			w.send(oap.Header{Flags: whole, Proto: oap.ProtoRepair, CorrID: 7}, `{"op":"x","deadline_ms":500}`)
			w.send(oap.Header{Flags: whole, Proto: oap.ProtoRepair, CorrID: 7}, `{"op":"x"}`)
			w.wantAnswer(7, 400, `"detail":"dup_corr"`)
			w.wantAnswer(7, 504, `"timeout"`) // the first one's
			w.ask(7, `{"op":"free again"}`)
			w.wantAnswer(7, 200, "free again")
		}},
		{name: "unknown protocol", rejected: oap.ReasonUnknownProto, run: func(t *testing.T, n *node, w *wire) {
			w.hello()
			w.send(oap.Header{Flags: whole, Proto: oap.ProtoGossip, CorrID: 1}, `{"op":"x"}`)
			w.wantAnswer(1, 400, `"detail":"unknown_proto"`)
			w.ask(2, `{"op":"alive"}`)
			w.wantAnswer(2, 200, "alive")
		}},
		{name: "unknown op", none: true, run: func(t *testing.T, n *node, w *wire) {
			w.hello()
			w.send(oap.Header{Flags: whole, Proto: oap.ProtoRepair, CorrID: 1}, `{"op":"dance"}`)
			w.wantAnswer(1, 415, `"reason":"unsupported"`)
		}},
		{name: "request of several frames", none: true, run: func(t *testing.T, n *node, w *wire) {
			w.hello()
			w.send(oap.Header{Flags: oap.FlagReq | oap.FlagStart, Proto: oap.ProtoIndex, CorrID: 1}, `{"op":"x"}`)
			w.wantAnswer(1, 400, "bad_request")
		}},
		{name: "payload is not JSON", none: true, run: func(t *testing.T, n *node, w *wire) {
			w.hello()
			for corr, p := range []string{`x`, `{"op":"a","op":"b"}`, `{"op":"a","deadline_ms":-1}`} {
				w.ask(uint64(corr+1), p)
				w.wantAnswer(uint64(corr+1), 400, "bad_request")
			}
		}},
		{name: "payload is a bomb", rejected: oap.ReasonInflateBound, run: func(t *testing.T, n *node, w *wire) {
			w.hello()
			w.send(oap.Header{Flags: whole | oap.FlagComp, Proto: oap.ProtoIndex, CorrID: 1}, "not zstd")
			w.wantReset(reset(oap.ReasonInflateBound))
		}},
		{name: "compressed request", none: true, run: func(t *testing.T, n *node, w *wire) {
			w.hello()
			text := `{"op":"` + strings.Repeat("ab", 2000) + `"}`
			z, _ := oap.NewCodec(1).Compress(nil, []byte(text), oap.MaxFrame)
			w.send(oap.Header{Flags: whole | oap.FlagComp, Proto: oap.ProtoIndex, CorrID: 1}, string(z))
			w.wantAnswer(1, 200, text) // not compressed: the opener did not offer it
		}},
		{name: "more in flight than allowed", none: true, run: func(t *testing.T, n *node, w *wire) {
			w.hello()
			for corr := range uint64(5) {
				w.send(oap.Header{Flags: whole, Proto: oap.ProtoRepair, CorrID: corr + 1},
					`{"op":"x","deadline_ms":1000}`)
			}
			w.wantAnswer(5, 429, `"reason":"busy"`)
			for range 4 {
				if f := w.recv(); f.Code != 504 {
					t.Errorf("code %d", f.Code)
				}
			}
		}},
		{name: "more requests a second than allowed", none: true, run: func(t *testing.T, n *node, w *wire) {
			w.hello()
			for range 200 {
				w.send(oap.Header{Flags: whole, CorrID: 1}, "ping")
				w.wantAnswer(1, 200, "ping")
			}
			w.send(oap.Header{Flags: whole, CorrID: 1}, "ping")
			w.wantAnswer(1, 429, `"reason":"busy"`)
			time.Sleep(5 * time.Millisecond)
			w.send(oap.Header{Flags: whole, CorrID: 1}, "ping")
			w.wantAnswer(1, 200, "ping")
		}},
		{name: "deadline of the asker", none: true, run: func(t *testing.T, n *node, w *wire) {
			w.hello()
			w.send(oap.Header{Flags: whole, Proto: oap.ProtoRepair, CorrID: 1}, `{"op":"x","deadline_ms":250}`)
			elapsed(t, 250*time.Millisecond, func() { w.wantAnswer(1, 504, `"timeout"`) })
			w.send(oap.Header{Flags: whole, Proto: oap.ProtoRepair, CorrID: 2}, `{"op":"x","deadline_ms":3600000}`)
			elapsed(t, 10*time.Second, func() { w.wantAnswer(2, 504, `"timeout"`) })
		}},
		{name: "handler panics", none: true, run: func(t *testing.T, n *node, w *wire) {
			w.hello()
			w.send(oap.Header{Flags: whole, Proto: oap.ProtoRepair, CorrID: 1}, `{"op":"panic"}`)
			w.wantAnswer(1, 500, `"reason":"internal"`)
			w.ask(2, `{"op":"alive"}`)
			w.wantAnswer(2, 200, "alive")
			if n.metric(t, "session_handler_panics_total") != 1 {
				t.Error("not counted")
			}
		}},
		{name: "PING", none: true, run: func(t *testing.T, n *node, w *wire) {
			w.hello()
			w.send(oap.Header{Flags: whole, CorrID: 9}, strings.Repeat("p", 64))
			w.wantAnswer(9, 200, strings.Repeat("p", 64))
			w.send(oap.Header{Flags: whole, CorrID: 9}, strings.Repeat("p", 65))
			w.wantAnswer(9, 400, "bad_request")
		}},
		{name: "idle, PING or not", none: true, run: func(t *testing.T, n *node, w *wire) {
			w.hello()
			w.ask(1, `{"op":"x"}`)
			w.wantAnswer(1, 200, "x")
			start := time.Now()
			for range 7 {
				time.Sleep(4 * time.Second)
				w.send(oap.Header{Flags: whole, CorrID: 2}, "ping")
				w.wantAnswer(2, 200, "ping")
			}
			w.wantClose()
			if d := time.Since(start); d != 30*time.Second {
				t.Errorf("closed after %s", d)
			}
		}},
		{name: "half a frame", none: true, run: func(t *testing.T, n *node, w *wire) {
			w.hello()
			time.Sleep(10 * time.Second)
			_, _ = w.stream.Write(make([]byte, 3))
			elapsed(t, 5*time.Second, func() { w.wantReset(0) })
			if n.metric(t, "io_timeouts_total", "session_read") != 1 {
				t.Error("not counted")
			}
		}},
		{name: "a frame that never ends", none: true, run: func(t *testing.T, n *node, w *wire) {
			w.hello()
			start := time.Now()
			p, _ := encode(oap.Frame{Header: oap.Header{Flags: whole, Proto: oap.ProtoIndex}, Payload: make([]byte,
				100)})
			for i := range p {
				time.Sleep(4 * time.Second)
				if _, err := w.stream.Write(p[i : i+1]); err != nil {
					break
				}
			}
			if d := time.Since(start); d > 34*time.Second {
				t.Errorf("open for %s: progress byte by byte must not outlive idle_timeout", d)
			}
		}},
		{name: "stream ends inside a frame", rejected: oap.ReasonTruncated, run: func(t *testing.T, n *node, w *wire) {
			w.hello()
			_, _ = w.stream.Write(make([]byte, 3))
			_ = w.stream.CloseWrite()
			w.wantReset(reset(oap.ReasonTruncated))
		}},
		{name: "stream ends with a request in flight", none: true, run: func(t *testing.T, n *node, w *wire) {
			w.hello()
			w.send(oap.Header{Flags: whole, Proto: oap.ProtoRepair, CorrID: 1}, `{"op":"x","deadline_ms":2000}`)
			_ = w.stream.CloseWrite()
			w.wantAnswer(1, 504, `"timeout"`)
			w.wantClose()
		}},
		{name: "frame too long", rejected: oap.ReasonFrameOversize, run: func(t *testing.T, n *node, w *wire) {
			w.hello()
			_, _ = w.stream.Write(append(binary.BigEndian.AppendUint32(nil, oap.MaxFrame+1), make([]byte, 34)...))
			w.wantReset(reset(oap.ReasonFrameOversize))
		}},
		{name: "asks for credit", none: true, run: func(t *testing.T, n *node, w *wire) {
			w.hello()
			w.send(oap.Header{Flags: whole | oap.FlagAckReq, Proto: oap.ProtoIndex, CorrID: 3}, `{"op":"x"}`)
			f := w.recv()
			if n, err := oap.DecodeAck(f.Payload); !f.Flags.IsAck() || f.CorrID != 3 || n != 1 || err != nil {
				t.Fatalf("%+v %v", f, err)
			}
			w.wantAnswer(3, 200, "x")
		}},
		{name: "acknowledges what was not sent", rejected: oap.ReasonCreditViolation,
			run: func(t *testing.T, n *node, w *wire) {
				w.hello()
				w.send(oap.Header{Flags: whole, Proto: oap.ProtoRepair, CorrID: 3}, `{"op":"x"}`)
				w.send(oap.Header{Flags: oap.FlagEvent | oap.FlagResp, Proto: oap.ProtoRepair, CorrID: 3},
					string(make([]byte, 8)))
				w.send(oap.Header{Flags: oap.FlagEvent | oap.FlagResp, Proto: oap.ProtoRepair, CorrID: 3},
					"\x00\x00\x00\x00\x00\x00\x00\x01")
				w.wantReset(reset(oap.ReasonCreditViolation))
			}},
		{name: "acknowledges an unknown request", rejected: oap.ReasonCreditViolation,
			run: func(t *testing.T, n *node, w *wire) {
				w.hello()
				w.send(oap.Header{Flags: oap.FlagEvent | oap.FlagResp, CorrID: 99}, string(make([]byte, 8)))
				w.wantReset(reset(oap.ReasonCreditViolation))
			}},
		{name: "events and stray answers", rejected: oap.ReasonUnknownProto, run: func(t *testing.T, n *node, w *wire) {
			w.hello()
			w.send(oap.Header{Flags: oap.FlagEvent}, `{"drain_ms":3000}`)
			w.send(oap.Header{Flags: oap.FlagEvent, Proto: oap.ProtoGossip}, `x`)
			w.send(oap.Header{Flags: oap.FlagResp | oap.FlagEnd, Code: 200, CorrID: 5}, `x`)
			w.ask(2, `{"op":"alive"}`)
			w.wantAnswer(2, 200, "alive")
		}},
		{name: "a second session on the connection", none: true, run: func(t *testing.T, n *node, w *wire) {
			w.hello()
			second := dial(t, n.other, "a")
			w.wantReset(network.StreamSupplanted)
			second.hello()
			second.ask(1, `{"op":"alive"}`)
			second.wantAnswer(1, 200, "alive")
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, maxRead := range []int{0, 1} {
				bubble(t, testkit.Options{MaxRead: maxRead}, func(t *testing.T, net *testkit.Network) {
					n := start(t, net.Host("a"), cfg, func(s *session.Service) {
						echo(s)
						s.Handle(oap.ProtoRepair, waiter)
					})
					defer n.stop()
					n.other = net.Host("b")
					tc.run(t, n, dial(t, n.other, "a"))
					want := 1.0
					if tc.none {
						want = 0
					}
					if got := n.metric(t, "frame_reject_total"); got != want ||
						want > 0 && n.metric(t, "frame_reject_total", tc.rejected.String()) != 1 {
						t.Errorf("%v frames rejected, want %v %s", got, want, tc.rejected)
					}
				})
			}
		})
	}
}

// waiter waits for its context, or does what op says.
func waiter(ctx context.Context, _ peer.ID, r *session.Request) session.Response {
	switch r.Op {
	case "x":
		<-ctx.Done()
		return session.Response{Err: fmt.Errorf("waiter: %w", ctx.Err())}
	case "panic":
		panic("handler")
	}
	return session.Response{Err: status.Errorf(status.Unsupported, "unknown op %q", r.Op)}
}
