package session_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"

	"allium/internal/testkit"
	"allium/protocols/oap"
	"allium/protocols/session"
	"allium/protocols/status"
)

// TestOpener is the opener's state machine against an acceptor that does what
// the test says.
func TestOpener(t *testing.T) {
	for _, tc := range []struct {
		name string
		run  func(t *testing.T, c *calls, in <-chan *wire)
	}{
		{"an answer", func(t *testing.T, c *calls, in <-chan *wire) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			r := c.go1(ctx, `{"op":"x"}`)
			w := <-in
			w.greet(32)
			f := w.recv()
			if string(f.Payload) != `{"deadline_ms":1000,"op":"x"}` || f.Flags != whole || f.Proto != oap.ProtoIndex ||
				f.CorrID == 0 {
				t.Errorf("%+v %s", f.Header, f.Payload)
			}
			w.answer(f.CorrID, 200, "yes")
			c.wg.Wait()
			r.want(t, status.OK, "yes")
			if i := c.n.Sessions(); len(i) != 1 || i[0].Dir != network.DirOutbound || i[0].MaxFrame != 262144 ||
				c.n.MaxFrame(c.n.host.Conn("b")) != 262144 || c.n.MaxFrame(c.n.host.Conn("c")) != oap.MaxFrame {
				t.Errorf("%+v", i)
			}
		}},
		{"an error", func(t *testing.T, c *calls, in <-chan *wire) {
			r := c.go1(t.Context(), `{}`)
			w := <-in
			w.greet(32)
			w.answer(w.recv().CorrID, 429,
				`{"reason":"quota","message":"too much","limit":"l","current":2,"cap":2,"retry_after_ms":500}`)
			c.wg.Wait()
			r.want(t, status.Quota, "too much")
			var e *status.Error
			if !errors.As(r.err, &e) || e.Limit == nil || e.Limit.RetryAfter != 500*time.Millisecond {
				t.Errorf("%+v", e)
			}
		}},
		{"HELLO is not answered", func(t *testing.T, c *calls, in <-chan *wire) {
			r := c.go1(t.Context(), `{}`)
			w := <-in
			c.wg.Wait()
			r.want(t, status.Timeout, "HELLO")
			if r.took != 3*time.Second || c.n.metric(t, "handshake_timeouts_total") != 1 {
				t.Errorf("after %s", r.took)
			}
			synctest.Wait() // the call is told before the stream is reset
			w.wantReset(0)
		}},
		{"HELLO is answered with something else", func(t *testing.T, c *calls, in <-chan *wire) {
			r := c.go1(t.Context(), `{}`)
			w := <-in
			w.recv()
			w.answer(5, 200, "yes")
			w.wantReset(reset(oap.ReasonBadHello))
			c.wg.Wait()
			r.want(t, status.BadFrame, "bad_hello")
		}},
		{"HELLO is refused", func(t *testing.T, c *calls, in <-chan *wire) {
			r := c.go1(t.Context(), `{}`)
			w := <-in
			w.recv()
			w.answer(0, 403, `{"reason":"not_allowed","message":"private"}`)
			c.wg.Wait()
			r.want(t, status.NotAllowed, "private")
		}},
		{"the acceptor is draining", func(t *testing.T, c *calls, in <-chan *wire) {
			r := c.go1(t.Context(), `{}`)
			_ = (<-in).stream.ResetWithError(network.StreamShutdown)
			c.wg.Wait()
			r.want(t, status.Draining, "ask another")
		}},
		{"the acceptor refuses our frame", func(t *testing.T, c *calls, in <-chan *wire) {
			r := c.go1(t.Context(), `{}`)
			w := <-in
			w.greet(32)
			_ = w.stream.ResetWithError(reset(oap.ReasonBadFlags))
			c.wg.Wait()
			r.want(t, status.BadFrame, "bad_flags")
		}},
		{"the connection breaks", func(t *testing.T, c *calls, in <-chan *wire) {
			r := c.go1(t.Context(), `{}`)
			w := <-in
			w.greet(32)
			w.recv()
			_ = w.stream.Reset()
			c.wg.Wait()
			r.want(t, status.TransportDown, "connection")
			again := c.go1(t.Context(), `{}`)
			w = <-in
			w.greet(32)
			w.answer(w.recv().CorrID, 200, "back")
			c.wg.Wait()
			again.want(t, status.OK, "back")
		}},
		{"closed without an answer: asked again, once", func(t *testing.T, c *calls, in <-chan *wire) {
			r := c.go1(t.Context(), `{}`)
			for range 2 {
				w := <-in
				w.greet(32)
				w.recv()
				_ = w.stream.Close()
			}
			c.wg.Wait()
			r.want(t, status.TransportDown, "closed the session")
			if len(in) != 0 {
				t.Error("asked a third time")
			}
		}},
		{"GOAWAY with a request in flight", func(t *testing.T, c *calls, in <-chan *wire) {
			r := c.go1(t.Context(), `{}`)
			w := <-in
			w.greet(32)
			corr := w.recv().CorrID
			w.send(oap.Header{Flags: oap.FlagEvent}, `{"drain_ms":3000}`)
			synctest.Wait()
			late := c.go1(t.Context(), `{}`)
			late.want(t, status.Draining, "shutting down")
			w.answer(corr, 200, "last")
			c.wg.Wait()
			r.want(t, status.OK, "last")
			w.wantClose()
		}},
		{"GOAWAY with nothing in flight", func(t *testing.T, c *calls, in <-chan *wire) {
			c.go1(t.Context(), `{}`)
			w := <-in
			w.greet(32)
			w.answer(w.recv().CorrID, 200, "")
			w.send(oap.Header{Flags: oap.FlagEvent}, `{"drain_ms":3000}`)
			w.wantClose()
		}},
		{"more calls than the acceptor takes", func(t *testing.T, c *calls, in <-chan *wire) {
			first := c.go1(t.Context(), `{"n":1}`)
			w := <-in
			w.greet(1)
			corr := w.recv().CorrID
			second := c.go1(t.Context(), `{"n":2}`)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			third := c.go1(ctx, `{"n":3}`)
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if third.want(t, status.Busy, "session.max_inflight"); third.took != time.Second {
				t.Errorf("the third waited %s", third.took)
			}
			w.answer(corr, 200, "one")
			f := w.recv()
			if string(f.Payload) != `{"n":2}` {
				t.Errorf("%s", f.Payload)
			}
			fourth := c.go1(t.Context(), `{"n":4}`)
			time.Sleep(5 * time.Second)
			synctest.Wait()
			fourth.want(t, status.Busy, "session.max_inflight")
			w.answer(f.CorrID, 200, "two")
			c.wg.Wait()
			first.want(t, status.OK, "one")
			second.want(t, status.OK, "two")
			if n := c.n.metric(t, "backpressure_events_total"); n != 2 {
				t.Errorf("%v waits without a permit", n)
			}
		}},
		{"the caller gives up", func(t *testing.T, c *calls, in <-chan *wire) {
			ctx, cancel := context.WithCancel(t.Context())
			r := c.go1(ctx, `{}`)
			w := <-in
			w.greet(1)
			corr := w.recv().CorrID
			cancel()
			c.wg.Wait()
			r.want(t, status.Canceled, "")
			next := c.go1(t.Context(), `{}`) // waits: the acceptor still works on the first
			w.answer(corr, 200, "nobody waits for this")
			w.answer(w.recv().CorrID, 200, "this")
			c.wg.Wait()
			next.want(t, status.OK, "this")
		}},
		{"an answer of several frames", func(t *testing.T, c *calls, in <-chan *wire) {
			r := c.go1(t.Context(), `{}`)
			w := <-in
			w.greet(1)
			corr := w.recv().CorrID
			w.send(oap.Header{Flags: oap.FlagResp | oap.FlagStart, Code: 200, Proto: oap.ProtoIndex, CorrID: corr}, "a")
			c.wg.Wait()
			r.want(t, status.Upstream, "several frames")
			next := c.go1(t.Context(), `{}`)
			w.answer(corr, 200, "b")
			w.answer(w.recv().CorrID, 200, "next")
			c.wg.Wait()
			next.want(t, status.OK, "next")
		}},
		{"the acceptor asks", func(t *testing.T, c *calls, in <-chan *wire) {
			c.go1(t.Context(), `{}`)
			w := <-in
			w.greet(1)
			w.answer(w.recv().CorrID, 200, "")
			w.ask(3, `{"op":"x"}`)
			w.wantAnswer(3, 400, "bad_request")
			w.send(oap.Header{Flags: whole}, `{"ua":"","features":[]}`)
			w.wantReset(reset(oap.ReasonBadHello))
		}},
		{"the acceptor acknowledges", func(t *testing.T, c *calls, in <-chan *wire) {
			r := c.go1(t.Context(), `{}`)
			w := <-in
			w.greet(1)
			corr := w.recv().CorrID
			h := oap.Header{Proto: oap.ProtoIndex, CorrID: corr}
			if err := w.w.Write(oap.AckFrame(h, 1)); err != nil { // not asked for, but true
				t.Fatal(err)
			}
			w.send(oap.Header{Flags: oap.FlagResp | oap.FlagEnd | oap.FlagAckReq, Code: 200, CorrID: corr,
				Proto: oap.ProtoIndex}, "yes")
			if f := w.recv(); !f.Flags.IsAck() || f.CorrID != corr {
				t.Errorf("%+v", f.Header)
			}
			c.wg.Wait()
			r.want(t, status.OK, "yes")
			if err := w.w.Write(oap.AckFrame(h, 1)); err != nil { // not in flight any more
				t.Fatal(err)
			}
			w.wantReset(reset(oap.ReasonCreditViolation))
		}},
		{"an ACK goes backwards", func(t *testing.T, c *calls, in <-chan *wire) {
			r := c.go1(t.Context(), `{}`)
			w := <-in
			w.greet(1)
			h := oap.Header{Proto: oap.ProtoIndex, CorrID: w.recv().CorrID}
			for _, n := range []uint64{1, 0} {
				if err := w.w.Write(oap.AckFrame(h, n)); err != nil {
					t.Fatal(err)
				}
			}
			w.wantReset(reset(oap.ReasonCreditViolation))
			c.wg.Wait()
			r.want(t, status.BadFrame, "credit_violation")
		}},
		{"a request above max_frame", func(t *testing.T, c *calls, in <-chan *wire) {
			r := c.go1(t.Context(), `{"x":"`+strings.Repeat("\x01\xfe", 200_000)+`"}`)
			w := <-in
			w.greet(1)
			c.wg.Wait()
			r.want(t, status.FrameOversize, "65536")
		}},
		{"idle", func(t *testing.T, c *calls, in <-chan *wire) {
			c.go1(t.Context(), `{}`)
			w := <-in
			w.greet(1)
			w.answer(w.recv().CorrID, 200, "")
			elapsed(t, 22500*time.Millisecond, func() { w.wantClose() }) // before the acceptor would
		}},
		{"idle with a ping in flight", func(t *testing.T, c *calls, in <-chan *wire) {
			c.go1(t.Context(), `{}`)
			w := <-in
			w.greet(1)
			w.answer(w.recv().CorrID, 200, "")
			time.Sleep(22400 * time.Millisecond)
			c.wg.Go(func() {
				if _, err := c.n.Ping(t.Context(), "b"); err != nil {
					t.Errorf("ping: %v", err)
				}
			})
			w.recv()
			w.wantClose()
			w = <-in // the ping goes over a session of its own
			w.greet(1)
			f := w.recv()
			w.answer(f.CorrID, 200, string(f.Payload))
			c.wg.Wait()
		}},
		{"the acceptor never answers", func(t *testing.T, c *calls, in <-chan *wire) {
			r := c.go1(t.Context(), `{}`)
			w := <-in
			w.greet(1)
			w.recv()
			elapsed(t, 22500*time.Millisecond, func() { w.wantReset(0) })
			c.wg.Wait()
			r.want(t, status.Timeout, "not answered")
		}},
		{"stopped in flight", func(t *testing.T, c *calls, in <-chan *wire) {
			r := c.go1(t.Context(), `{}`)
			w := <-in
			w.greet(1)
			w.recv()
			c.n.stop()
			c.wg.Wait()
			r.want(t, status.Draining, "shutting down")
			w.wantReset(network.StreamShutdown)
			c.go1(t.Context(), `{}`).want(t, status.Draining, "shutting down")
		}},
		{"stopped with nothing in flight", func(t *testing.T, c *calls, in <-chan *wire) {
			c.go1(t.Context(), `{}`)
			w := <-in
			w.greet(1)
			w.answer(w.recv().CorrID, 200, "")
			c.wg.Wait()
			c.n.stop()
			w.wantClose()
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, testkit.Options{}, func(t *testing.T, net *testkit.Network) {
				in := acceptor(t, net, "b")
				c := &calls{n: start(t, net.Host("a"), session.DefaultConfig(), nil)}
				tc.run(t, c, in)
				c.n.stop()
				c.wg.Wait()
				if o, cl := c.n.metric(t, "session_open_total"), c.n.metric(t, "session_close_total"); o != cl {
					t.Errorf("%v opened, %v closed", o, cl)
				}
			})
		})
	}
}

func TestNobodyThere(t *testing.T) {
	bubble(t, testkit.Options{}, func(t *testing.T, net *testkit.Network) {
		c := &calls{n: start(t, net.Host("a"), session.DefaultConfig(), nil)}
		defer c.n.stop()
		c.go1(t.Context(), `{}`).want(t, status.TransportDown, "not reached")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		c.go1(ctx, `{}`).want(t, status.Canceled, "")
	})
}
