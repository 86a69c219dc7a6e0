package session_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"allium/internal/testkit"
	"allium/protocols/oap"
	"allium/protocols/session"
	"allium/protocols/status"
)

// flooded is how long a session is read that brings a flood at the control rate.
const flooded = (flood - 200) * time.Second / 200

// TestOneWayFloods: what asks nothing cannot be refused. A peer that sends it
// without measure is read at the rate of its requests, and nobody else waits.
func TestOneWayFloods(t *testing.T) {
	pieces := testkit.Options{Window: 256} // so that the sender sees how it is read
	news := func(h oap.Header) func(t *testing.T, r *rig) {
		return func(t *testing.T, r *rig) {
			w := r.session()
			within(t, flooded-time.Second, flooded, func() {
				for i := range uint64(flood) {
					h.CorrID = i
					if h.Proto == oap.ProtoControl {
						h.CorrID = 0
					}
					w.send(h, `{"news":true}`)
					if i%1000 == 0 {
						r.honest()
					}
				}
			})
			w.ask(1, `{"op":"at once"}`) // the rate is spent
			w.wantAnswer(1, 429, "session.control_rate")
			time.Sleep(time.Second)
			w.ask(2, `{"op":"alive"}`)
			w.wantAnswer(2, 200, "alive")
			paced(t, r)
		}
	}
	// toOpener floods a session that the node opened, while a call of the node
	// waits, and answers the call in the end.
	toOpener := func(flags oap.Flags, stray bool, payload string) func(t *testing.T, r *rig) {
		return func(t *testing.T, r *rig) {
			c := &calls{n: r.n}
			res := c.go1(t.Context(), `{}`)
			w := <-r.in
			w.greet(32)
			corr := w.recv().CorrID
			h := oap.Header{Flags: flags, Code: 200, Proto: oap.ProtoIndex, CorrID: corr}
			if stray {
				h.CorrID += 7
			}
			if flags == oap.FlagEvent {
				h = oap.Header{Flags: flags}
			}
			within(t, flooded-time.Second, flooded, func() {
				for range flood {
					w.send(h, payload)
				}
			})
			w.answer(corr, 200, "at last")
			c.wg.Wait()
			if flags == oap.FlagResp && !stray { // the first frame was the answer
				res.want(t, status.Upstream, "several frames")
			} else {
				res.want(t, status.OK, "at last")
			}
			paced(t, r)
		}
	}
	const answer = oap.FlagResp | oap.FlagEnd
	attacks(t, []attack{
		{name: "GOAWAY to an acceptor", opts: pieces, run: news(oap.Header{Flags: oap.FlagEvent})},
		{name: "events of protocols", opts: pieces,
			counts: map[string]float64{"frame_reject_total unknown_proto": flood},
			run:    news(oap.Header{Flags: oap.FlagEvent, Proto: oap.ProtoGossip})},
		{name: "answers to an acceptor", opts: pieces,
			run: news(oap.Header{Flags: answer, Code: 200, Proto: oap.ProtoIndex})},
		{name: "GOAWAY to an opener", opts: pieces, run: toOpener(oap.FlagEvent, false, "not even JSON")},
		{name: "answers to nothing", opts: pieces, run: toOpener(answer, true, "{}")},
		{name: "answers to nothing that are compressed", opts: pieces,
			run: toOpener(answer|oap.FlagComp, true, zipped(strings.Repeat("{} ", 100)))},
		{name: "answers without an end", opts: pieces, run: toOpener(oap.FlagResp, false, "{}")},
		{name: "true ACKs", opts: pieces, run: func(t *testing.T, r *rig) {
			c := &calls{n: r.n}
			res := c.go1(t.Context(), `{}`)
			w := <-r.in
			w.greet(1)
			corr := w.recv().CorrID
			within(t, flooded-time.Second, flooded, func() {
				for range flood {
					_, _ = w.stream.Write(ack(corr, "\x00\x00\x00\x00\x00\x00\x00\x01"))
				}
			})
			w.answer(corr, 200, "yes")
			c.wg.Wait()
			res.want(t, status.OK, "yes")
			paced(t, r)
		}},
		{name: "a session that ends meanwhile", change: func(c *session.Config) { c.ControlRate = 10 },
			run: func(t *testing.T, r *rig) {
				w := r.session()
				for range 20 {
					w.send(oap.Header{Flags: oap.FlagEvent}, `{}`)
				}
				synctest.Wait() // for its turn
				within(t, 0, 0, func() {
					r.session() // supplants it
					synctest.Wait()
				})
				open := 0
				for _, s := range r.n.Sessions() {
					if s.Peer == r.evil.ID() {
						open++
					}
				}
				if open != 1 {
					t.Errorf("%d sessions are open", open)
				}
			}},
	})
}

// paced looks that the frames which had to wait were counted.
func paced(t *testing.T, r *rig) {
	t.Helper()
	if n := r.n.metric(t, "session_paced_frames_total"); n < flood-210 || n > flood-200 {
		t.Errorf("%v frames waited for their turn", n)
	}
}
