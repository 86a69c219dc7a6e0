package session_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/testkit"
	"allium/protocols/oap"
	"allium/protocols/session"
)

// attack is one peer that misbehaves towards the node "a" while an honest one,
// the node "good", goes on.
type attack struct {
	name   string
	opts   testkit.Options
	change func(*session.Config)
	run    func(t *testing.T, r *rig)
	counts map[string]float64 // "metric" or "metric label" to what the attack adds to it
}

// counted are the metrics that an attack changes only when its counts say so.
var counted = []string{"frame_reject_total", "io_timeouts_total", "handshake_timeouts_total",
	"session_handler_panics_total"}

// rig is what an attack works with.
type rig struct {
	t    *testing.T
	net  *testkit.Network
	n    *node // under attack
	good *node
	evil *testkit.Host // "b"
	in   <-chan *wire  // session streams that the node opens to "b"
}

// attacks runs each attack, and after it looks that the honest peer was never
// hurt, that nothing is left of the attack and that it was counted.
func attacks(t *testing.T, all []attack) {
	t.Helper()
	for _, a := range all {
		t.Run(a.name, func(t *testing.T) {
			bubble(t, a.opts, func(t *testing.T, net *testkit.Network) {
				cfg := session.DefaultConfig()
				if a.change != nil {
					a.change(&cfg)
				}
				r := &rig{t: t, net: net}
				r.n = start(t, net.Host("a"), cfg, abused)
				defer r.n.stop()
				r.good = start(t, net.Host("good"), session.DefaultConfig(), echo)
				defer r.good.stop()
				r.evil = net.Host("b")
				r.in = accepting(t, r.evil)
				r.honest()
				a.run(t, r)
				r.honest()
				r.gone()
				r.count(a.counts)
			})
		})
	}
}

// abused is what the node under attack serves: index echoes, repair does what
// op says, object answers 60 KiB that do not compress.
func abused(s *session.Service) {
	echo(s)
	s.Handle(oap.ProtoRepair, waiter)
	s.Handle(oap.ProtoObject, func(context.Context, peer.ID, *session.Request) session.Response {
		return session.Response{Payload: []byte(noise(60 << 10))}
	})
}

// noise is n bytes that look random.
func noise(n int) string {
	p, x := make([]byte, n), uint32(1)
	for i := range p {
		x = x*1664525 + 1013904223
		p[i] = byte(x >> 24)
	}
	return string(p)
}

// dial opens a session stream as the attacker, without HELLO.
func (r *rig) dial() *wire {
	r.t.Helper()
	return dial(r.t, r.evil, "a")
}

// session opens a session as the attacker.
func (r *rig) session() *wire {
	r.t.Helper()
	w := r.dial()
	w.hello()
	return w
}

// honest asks over the honest peer's sessions, both ways: each answer comes in
// no time.
func (r *rig) honest() {
	r.t.Helper()
	start := time.Now()
	for from, to := range map[*node]peer.ID{r.good: "a", r.n: "good"} {
		if p, err := from.Call(r.t.Context(), to, oap.ProtoIndex, []byte(`{"op":"honest"}`)); err != nil ||
			string(p) != `{"op":"honest"}` {
			r.t.Errorf("the honest peer, to %s: %s, %v", to, p, err)
		}
	}
	if took := time.Since(start); took != 0 && r.opts().Latency == 0 {
		r.t.Errorf("the honest peer waited %s", took)
	}
}

func (r *rig) opts() testkit.Options { return r.net.Options() }

// gone looks that the sessions end by themselves and give everything back.
func (r *rig) gone() {
	r.t.Helper()
	time.Sleep(3 * time.Minute) // idle, or too slow
	synctest.Wait()
	if left := r.n.Sessions(); len(left) != 0 {
		r.t.Errorf("still open: %+v", left)
	}
	ctx, cancel := context.WithCancel(r.t.Context())
	cancel()
	if n := r.n.Drain(ctx, 0); n != 0 {
		r.t.Errorf("%d requests still in flight", n)
	}
	for _, l := range r.n.limits.Snapshot() {
		if l.Current != 0 {
			r.t.Errorf("held after the attack: %+v", l)
		}
	}
	if o, c := r.n.metric(r.t, "session_open_total"), r.n.metric(r.t, "session_close_total"); o != c {
		r.t.Errorf("%v sessions opened, %v closed", o, c)
	}
}

// count compares the metrics with what the attack says of them.
func (r *rig) count(want map[string]float64) {
	r.t.Helper()
	total := map[string]float64{}
	for key, n := range want {
		name, label, _ := strings.Cut(key, " ")
		labels := strings.Fields(label)
		if got := r.n.metric(r.t, name, labels...); got != n {
			r.t.Errorf("%s is %v, want %v", key, got, n)
		}
		total[name] += n
	}
	for _, name := range counted {
		if got := r.n.metric(r.t, name); got != total[name] {
			r.t.Errorf("%s is %v in all, want %v", name, got, total[name])
		}
	}
}

// accepting makes the session streams to a host come to the test.
func accepting(t testing.TB, h *testkit.Host) <-chan *wire {
	wires := make(chan *wire, 64) // bound: openings of one test
	h.SetStreamHandler(session.ProtocolID, func(s network.Stream) { wires <- newWire(t, s.(*testkit.Stream)) })
	return wires
}

// frame is the bytes of a frame, whatever a writer would say of it.
func frame(h oap.Header, cap, payload string) []byte {
	p, err := encode(oap.Frame{Header: h, Cap: []byte(cap), Payload: []byte(payload)})
	if err != nil {
		panic(err)
	}
	return p
}

// trickle writes pieces of p, a pause before each, until the stream fails, and
// returns how much was written.
func (w *wire) trickle(p []byte, piece int, pause time.Duration) (written int) {
	for len(p) > 0 {
		time.Sleep(pause)
		n, err := w.stream.Write(p[:min(piece, len(p))])
		written, p = written+n, p[n:]
		if err != nil {
			break
		}
	}
	return written
}

// sip reads pieces, a pause before each, until the stream fails, and returns
// how much it got and why it ended.
func (w *wire) sip(piece int, pause time.Duration) (got int, err error) {
	p := make([]byte, piece)
	for {
		time.Sleep(pause)
		n, err := io.ReadFull(w.stream, p)
		got += n
		if err != nil {
			return got, err
		}
	}
}

// within fails unless what f does takes a time between least and most.
func within(t *testing.T, least, most time.Duration, f func()) {
	t.Helper()
	start := time.Now()
	f()
	if got := time.Since(start); got < least || got > most {
		t.Errorf("took %s, want %s to %s", got, least, most)
	}
}

// resetWith reports what is wrong with err as the reset of the other side.
func resetWith(err error, code network.StreamErrorCode) error {
	var se *network.StreamError
	if !errors.As(err, &se) || !se.Remote || se.ErrorCode != code {
		return fmt.Errorf("got %w, want a reset with %#x", err, code)
	}
	return nil
}

// evils are more attackers.
var evils = []peer.ID{"b1", "b2", "b3", "b4", "b5"}

// awaitReset waits for the reset of a stream without reading from it.
func awaitReset(w *wire) {
	for w.stream.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
}
