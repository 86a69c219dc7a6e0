package session_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"allium/internal/testkit"
	"allium/protocols/oap"
	"allium/protocols/session"
	"allium/protocols/status"
)

// almost is a pause that the 5 s of read and write timeout allow.
const almost = 4900 * time.Millisecond

// TestSlowWriters: a peer that is inside a frame keeps up or is reset; one that
// is between frames has its idle time.
func TestSlowWriters(t *testing.T) {
	large := frame(oap.Header{Flags: oap.FlagResp | oap.FlagEnd, Proto: oap.ProtoIndex, CorrID: 1}, "",
		strings.Repeat(" ", oap.MaxFrame-oap.HeaderSize))
	most := frame(oap.Header{Flags: whole, Proto: oap.ProtoIndex, CorrID: 1}, "", strings.Repeat(" ", oap.MaxJSON))
	small := frame(oap.Header{Flags: whole, Proto: oap.ProtoIndex, CorrID: 1}, "", `{"op":"x"}`)
	read := map[string]float64{"io_timeouts_total session_read": 1}
	attacks(t, []attack{
		{name: "a byte each 4.9 s", counts: read, run: func(t *testing.T, r *rig) {
			w := r.session()
			within(t, 2*almost, 3*almost, func() {
				if n := w.trickle(large, 1, almost); n != 2 {
					t.Errorf("%d bytes were taken", n)
				}
			})
			w.wantReset(0)
		}},
		{name: "a byte each 4.9 s, of a small frame", counts: read, run: func(t *testing.T, r *rig) {
			w := r.session()
			w.trickle(small, 1, almost)
			w.wantReset(0)
		}},
		{name: "most of a frame at once, then a byte each 4.9 s", counts: read, run: func(t *testing.T, r *rig) {
			w := r.session()
			w.trickle(large[:900<<10], 64<<10, 0)
			// no credit for what came before
			within(t, almost, 2*almost+time.Second, func() { w.trickle(large[900<<10:], 1, almost) })
			w.wantReset(0)
		}},
		{name: "4 KiB a second", counts: read, run: func(t *testing.T, r *rig) {
			w := r.session()
			// 5 s of patience and half a second earned by each second.
			within(t, 9*time.Second, 12*time.Second, func() { w.trickle(large, 4<<10, time.Second) })
			w.wantReset(0)
		}},
		{name: "64 KiB at the rate that is asked for", run: func(t *testing.T, r *rig) {
			w := r.session()
			if n := w.trickle(most, 8<<10, time.Second); n != oap.HeaderSize+oap.MaxJSON {
				t.Errorf("%d bytes were taken", n)
			}
			w.wantAnswer(1, 400, "bad_request") // spaces are no JSON
		}},
		{name: "an honest one that is slow: half a frame, 4.9 s, the rest", run: func(t *testing.T, r *rig) {
			w := r.session()
			for range 10 {
				w.trickle(small[:20], 20, almost)
				w.trickle(small[20:], 100, almost)
				w.wantAnswer(1, 200, "x")
			}
		}},
		{name: "a frame begun as the idle time ends", run: func(t *testing.T, r *rig) {
			w := r.session()
			w.trickle(small[:20], 20, 29*time.Second)
			w.trickle(small[20:], 100, 2*time.Second)
			w.wantAnswer(1, 200, "x")
		}},
		{name: "HELLO, a byte each 0.49 s", counts: map[string]float64{"handshake_timeouts_total": 1},
			run: func(t *testing.T, r *rig) {
				w := r.dial()
				within(t, 3*time.Second, 4*time.Second,
					func() { w.trickle(frame(oap.Header{Flags: whole}, "", `{}`), 1, almost/10) })
				w.wantReset(0)
			}},
		{name: "PING each 4.9 s, nothing else", run: func(t *testing.T, r *rig) {
			w := r.session()
			for range 6 {
				time.Sleep(almost)
				w.send(oap.Header{Flags: whole, CorrID: 2}, "ping")
				w.wantAnswer(2, 200, "ping")
			}
			w.wantClose()
		}},
		{name: "an answer, a byte each 4.9 s", counts: read, run: func(t *testing.T, r *rig) {
			c := &calls{n: r.n}
			res := c.go1(t.Context(), `{}`)
			w := <-r.in
			w.greet(32)
			corr := w.recv().CorrID
			w.trickle(frame(oap.Header{Flags: oap.FlagResp | oap.FlagEnd, Code: 200,
				Proto: oap.ProtoIndex, CorrID: corr}, "",
				noise(9000)), 1, almost)
			w.wantReset(0)
			c.wg.Wait()
			res.want(t, status.Timeout, "within a frame")
		}},
		{name: "the HELLO of an acceptor, a byte each 0.49 s",
			counts: map[string]float64{"handshake_timeouts_total": 1},
			run: func(t *testing.T, r *rig) {
				c := &calls{n: r.n}
				res := c.go1(t.Context(), `{}`)
				w := <-r.in
				w.recv()
				hello := oap.Header{Flags: oap.FlagResp | oap.FlagEnd, Code: 200}
				w.trickle(frame(hello, "", `{"max_frame":1048576}`), 1, almost/10)
				w.wantReset(0)
				c.wg.Wait()
				res.want(t, status.Timeout, "HELLO")
			}},
	})
}

// TestSlowReaders: a peer that does not take what it asked for is reset, and
// what was promised to it is given back.
func TestSlowReaders(t *testing.T) {
	write := map[string]float64{"io_timeouts_total session_write": 1}
	narrow := testkit.Options{Window: 512}
	ask := func(w *wire, times int) {
		for i := range times {
			w.send(oap.Header{Flags: whole, Proto: oap.ProtoObject, CorrID: uint64(i + 1)}, `{"op":"x"}`)
		}
	}
	attacks(t, []attack{
		{name: "never reads", opts: narrow, counts: write, run: func(t *testing.T, r *rig) {
			w := r.session()
			ask(w, 8)
			within(t, 5*time.Second, 6*time.Second, func() { awaitReset(w) })
		}},
		{name: "never reads, and ends", opts: narrow, counts: write, run: func(t *testing.T, r *rig) {
			w := r.session()
			ask(w, 8)
			_ = w.stream.CloseWrite()
			within(t, 5*time.Second, 6*time.Second, func() { awaitReset(w) })
		}},
		{name: "a byte each 4.9 s", opts: narrow, counts: write, run: func(t *testing.T, r *rig) {
			w := r.session()
			ask(w, 8)
			var err error
			within(t, 5*time.Second, 11*time.Second, func() { _, err = w.sip(1, almost) })
			if err := resetWith(err, 0); err != nil {
				t.Error(err)
			}
		}},
		{name: "an error answer each 4.9 s", opts: narrow, counts: write, run: func(t *testing.T, r *rig) {
			w := r.session()
			for i := range 64 {
				w.send(oap.Header{Flags: whole, Proto: oap.ProtoRepair, CorrID: uint64(i + 1)},
					`{"op":"`+strings.Repeat("u", 200)+`"}`)
			}
			var err error
			within(t, 5*time.Second, 30*time.Second, func() { _, err = w.sip(300, almost) })
			if err := resetWith(err, 0); err != nil {
				t.Error(err)
			}
		}},
		{name: "at the rate that is asked for", opts: testkit.Options{Window: 8 << 10},
			run: func(t *testing.T, r *rig) {
				w := r.session()
				ask(w, 16)
				_ = w.stream.CloseWrite()
				got, err := w.sip(8<<10, time.Second)
				if want := 16 * (60<<10 + oap.HeaderSize); got != want || !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Errorf("%d bytes of %d, %v", got, want, err)
				}
			}},
		{name: "an acceptor that never reads", opts: narrow, counts: write, run: func(t *testing.T, r *rig) {
			c := &calls{n: r.n}
			res := c.go1(t.Context(), noise(10_000))
			w := <-r.in
			w.greet(32)
			c.wg.Wait()
			res.want(t, status.Timeout, "the peer reads nothing")
			w.wantReset(0)
		}},
		{name: "a handful that never read hold no more than their share", opts: narrow,
			counts: map[string]float64{"io_timeouts_total session_write": 5},
			change: func(c *session.Config) { c.ControlRate = 1 << 20 },
			run: func(t *testing.T, r *rig) {
				var all []*wire
				for i := range 5 {
					w := dial(t, r.net.Host(evils[i]), "a")
					w.hello()
					ask(w, 20)
					all = append(all, w)
				}
				r.honest()
				for _, w := range all {
					awaitReset(w)
				}
			}},
	})
}
