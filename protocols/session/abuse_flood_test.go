package session_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/oap"
	"allium/protocols/session"
	"allium/protocols/status"
)

// flood is the size of one.
const flood = 3000

// answers reads frames until the stream ends, counts them by code, and keeps
// one of each. They are complete after its wait.
type answers struct {
	wg    sync.WaitGroup
	codes map[uint16]int
	last  map[uint16]string
	err   error // why it ended; nil: cleanly
}

func (w *wire) collect() *answers {
	a := &answers{codes: map[uint16]int{}, last: map[uint16]string{}}
	a.wg.Go(func() {
		for {
			f, err := w.r.Next()
			if err != nil {
				if !errors.Is(err, io.EOF) {
					a.err = err
				}
				return
			}
			a.codes[f.Code]++
			a.last[f.Code] = string(f.Payload)
		}
	})
	return a
}

// want waits for the end and compares the counts; refusals are busy, say which
// limit and when to come again.
func (a *answers) want(t *testing.T, codes map[uint16]int, limit string) {
	t.Helper()
	a.wg.Wait()
	if fmt.Sprint(a.codes) != fmt.Sprint(codes) || a.err != nil {
		t.Errorf("answers by code %v, %v; want %v", a.codes, a.err, codes)
	}
	if busy := a.last[429]; codes[429] > 0 &&
		(!strings.Contains(busy, `"reason":"busy"`) || !strings.Contains(busy, limit) ||
			!strings.Contains(busy, `"retry_after_ms":`)) {
		t.Errorf("refused with %s; want busy of %s", busy, limit)
	}
}

// TestFloods: a peer that sends without measure gets its measure, and nobody
// waits for it.
func TestFloods(t *testing.T) {
	unlimited := func(c *session.Config) { c.ControlRate = 1 << 20 }
	attacks(t, []attack{
		{name: "requests beyond the rate", run: func(t *testing.T, r *rig) {
			w := r.session()
			a := w.collect()
			for corr := range uint64(flood) {
				w.ask(corr+1, `{"op":"x"}`)
				synctest.Wait()
			}
			r.honest()
			_ = w.stream.CloseWrite()
			a.want(t, map[uint16]int{200: 200, 429: flood - 200}, "session.control_rate")
		}},
		{name: "requests beyond what may be in flight", change: unlimited, run: func(t *testing.T, r *rig) {
			w := r.session()
			a := w.collect()
			for corr := range uint64(flood) {
				w.send(oap.Header{Flags: whole, Proto: oap.ProtoRepair, CorrID: corr + 1},
					`{"op":"x","deadline_ms":1000}`)
			}
			r.honest()
			_ = w.stream.CloseWrite()
			a.want(t, map[uint16]int{504: 32, 429: flood - 32}, "session.max_inflight")
		}},
		{name: "PING", run: func(t *testing.T, r *rig) {
			w := r.session()
			a := w.collect()
			for range flood {
				w.send(oap.Header{Flags: whole, CorrID: 1}, "ping")
			}
			r.honest()
			_ = w.stream.CloseWrite()
			a.want(t, map[uint16]int{200: 200, 429: flood - 200}, "session.control_rate")
		}},
		{name: "a rate is the peer's, not the session's", run: func(t *testing.T, r *rig) {
			served := 0
			for range 30 {
				w := r.session()
				a := w.collect()
				for corr := range uint64(20) {
					w.ask(corr+1, `{"op":"x"}`)
					synctest.Wait()
				}
				_ = w.stream.CloseWrite()
				a.wg.Wait()
				served += a.codes[200]
				if a.codes[200]+a.codes[429] != 20 || a.err != nil {
					t.Errorf("%v, %v", a.codes, a.err)
				}
			}
			if served != 200 {
				t.Errorf("%d requests of 30 sessions in one moment were served, want 200", served)
			}
		}},
		{name: "GOAWAY to an opener, again and again", run: func(t *testing.T, r *rig) {
			c := &calls{n: r.n}
			res := c.go1(t.Context(), `{}`)
			w := <-r.in
			w.greet(32)
			corr := w.recv().CorrID
			for range flood {
				w.send(oap.Header{Flags: oap.FlagEvent}, `not even JSON`)
			}
			w.answer(corr, 200, "at last")
			w.wantClose()
			c.wg.Wait()
			res.want(t, status.OK, "at last")
		}},
		{name: "GOAWAY right after each HELLO", run: func(t *testing.T, r *rig) {
			c := &calls{n: r.n}
			res := c.go1(t.Context(), `{}`)
			for range 2 {
				w := <-r.in
				w.greet(32)
				w.send(oap.Header{Flags: oap.FlagEvent}, `{"drain_ms":0}`)
				_ = w.stream.CloseWrite()
				synctest.Wait()
				if len(r.in) == 0 {
					break
				}
			}
			c.wg.Wait()
			if o := status.Of(res.err); o != status.TransportDown && o != status.Draining || len(r.in) != 0 {
				t.Errorf("%v, %d more sessions", res.err, len(r.in))
			}
		}},
		{name: "requests of protocols nobody serves",
			counts: map[string]float64{"frame_reject_total unknown_proto": 200},
			run: func(t *testing.T, r *rig) {
				w := r.session()
				a := w.collect()
				for corr := range uint64(flood) {
					w.send(oap.Header{Flags: whole, Proto: 999, CorrID: corr + 1}, `{"op":"x"}`)
				}
				_ = w.stream.CloseWrite()
				a.want(t, map[uint16]int{400: 200, 429: flood - 200}, "session.control_rate")
			}},
		{name: "requests from the side that answers", run: func(t *testing.T, r *rig) {
			c := &calls{n: r.n}
			res := c.go1(t.Context(), `{}`)
			w := <-r.in
			w.greet(32)
			corr := w.recv().CorrID
			a := w.collect()
			for i := range uint64(flood) {
				w.ask(i+1, `{"op":"x"}`)
			}
			w.answer(corr, 200, "still")
			c.wg.Wait()
			res.want(t, status.OK, "still")
			_ = w.stream.CloseWrite()
			a.wg.Wait()
			if a.codes[400]+a.codes[429] != flood || len(a.codes) > 2 || a.err != nil {
				t.Errorf("%v, %v", a.codes, a.err)
			}
		}},
		{name: "requests that panic", counts: map[string]float64{"session_handler_panics_total": 200},
			run: func(t *testing.T, r *rig) {
				w := r.session()
				a := w.collect()
				for corr := range uint64(200) {
					w.send(oap.Header{Flags: whole, Proto: oap.ProtoRepair, CorrID: corr + 1}, `{"op":"panic"}`)
					synctest.Wait()
				}
				_ = w.stream.CloseWrite()
				a.want(t, map[uint16]int{500: 200}, "")
			}},
	})
}

// TestResetStorms: sessions that begin and end by the thousand leave nothing.
func TestResetStorms(t *testing.T) {
	unlimited := func(c *session.Config) { c.ControlRate = 1 << 20 }
	storm := func(times int, one func(r *rig, i int)) func(*testing.T, *rig) {
		return func(_ *testing.T, r *rig) {
			for i := range times {
				one(r, i)
				if i%500 == 0 {
					r.honest()
				}
			}
		}
	}
	attacks(t, []attack{
		{name: "open, reset", run: storm(flood, func(r *rig, i int) {
			_ = r.dial().stream.ResetWithError(network.StreamErrorCode(i))
		})},
		{name: "open, close", run: storm(flood, func(r *rig, _ int) {
			_ = r.dial().stream.Close()
		})},
		{name: "half a HELLO, reset", run: storm(flood, func(r *rig, i int) {
			w := r.dial()
			_, _ = w.stream.Write(frame(oap.Header{Flags: whole}, "", `{}`)[:1+i%39])
			if i%2 == 0 {
				synctest.Wait()
			}
			_ = w.stream.Reset()
		})},
		{name: "HELLO, requests, reset", change: unlimited, run: storm(flood/3, func(r *rig, i int) {
			w := r.session()
			for corr := range uint64(1 + i%5) {
				w.send(oap.Header{Flags: whole, Proto: oap.ProtoRepair, CorrID: corr}, `{"op":"x"}`)
			}
			if i%2 == 0 {
				synctest.Wait()
			}
			_ = w.stream.Reset()
		})},
		{name: "HELLO, large requests, reset without reading", change: unlimited, run: storm(flood/10,
			func(r *rig, i int) {
				w := r.session()
				for corr := range uint64(20) {
					w.send(oap.Header{Flags: whole, Proto: oap.ProtoObject, CorrID: corr}, `{"op":"x"}`)
				}
				if i%2 == 0 {
					synctest.Wait()
				}
				_ = w.stream.ResetWithError(network.StreamErrorCode(i))
			})},
		{name: "sessions that supplant each other, none reset", change: unlimited, run: storm(flood/3,
			func(r *rig, i int) {
				w := r.session()
				w.send(oap.Header{Flags: whole, Proto: oap.ProtoRepair, CorrID: 1}, `{"op":"x","deadline_ms":500}`)
			})},
		{name: "connections that break", change: unlimited, run: storm(flood/3, func(r *rig, i int) {
			w := r.session()
			w.send(oap.Header{Flags: whole, Proto: oap.ProtoRepair, CorrID: 1}, `{"op":"x"}`)
			r.net.Disconnect("a", "b")
		})},
		{name: "more silent peers than there are places", change: func(c *session.Config) { c.Sessions = 12 },
			counts: map[string]float64{"handshake_timeouts_total": 10}, run: func(t *testing.T, r *rig) {
				var held []*wire
				for i := range 100 { // two places are the honest peer's
					w := dial(t, r.net.Host(peer.ID(fmt.Sprint("silent ", i))), "a")
					synctest.Wait()
					if w.stream.Err() == nil {
						held = append(held, w)
					} else {
						w.wantReset(network.StreamResourceLimitExceeded)
					}
				}
				if len(held) != 10 {
					t.Errorf("%d silent peers have a place", len(held))
				}
				r.honest()
				elapsed(t, 3*time.Second, func() {
					for _, w := range held {
						w.wantReset(0)
					}
				})
				synctest.Wait()
				w := r.session() // there is room again
				w.ask(1, `{"op":"alive"}`)
				w.wantAnswer(1, 200, "alive")
			}},
		{name: "an acceptor that resets every session", run: func(t *testing.T, r *rig) {
			c := &calls{n: r.n}
			for i := range flood {
				res := c.go1(t.Context(), `{}`)
				w := <-r.in
				if i%3 > 0 {
					w.greet(32)
				}
				if i%3 > 1 {
					w.recv()
				}
				_ = w.stream.ResetWithError(network.StreamErrorCode(i))
				synctest.Wait()
				if len(r.in) > 0 { // it was reset before the request was sent, which went over another
					_ = (<-r.in).stream.Reset()
				}
				c.wg.Wait()
				if status.Of(res.err) != status.TransportDown {
					t.Fatalf("%d: %v", i, res.err)
				}
			}
		}},
	})
}
