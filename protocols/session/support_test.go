package session_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/goleak"

	"allium/internal/env"
	"allium/internal/limits"
	"allium/internal/testkit"
	"allium/protocols/oap"
	"allium/protocols/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// node is a service that runs, on a host of a test network.
type node struct {
	*session.Service
	host    *testkit.Host
	other   *testkit.Host // of the peer under test, where there is one
	metrics *prometheus.Registry
	limits  *limits.Registry
	stop    func() // ends Run and waits for it
}

// start runs a service. prepare registers handlers; it may be nil.
func start(t testing.TB, host *testkit.Host, cfg session.Config, prepare func(*session.Service)) *node {
	t.Helper()
	n := startOn(t, host, cfg, prepare)
	n.host = host
	return n
}

// startOn is start on any host.
func startOn(t testing.TB, host session.Host, cfg session.Config, prepare func(*session.Service)) *node {
	t.Helper()
	n := &node{metrics: prometheus.NewRegistry()}
	n.limits = limits.NewRegistry(n.metrics)
	svc, err := session.New(cfg, session.Deps{
		Env:  env.Env{Log: slog.New(slog.DiscardHandler), Metrics: n.metrics, Limits: n.limits},
		Host: host, UserAgent: "allium/test",
	})
	if err != nil {
		t.Fatal(err)
	}
	n.Service = svc
	if prepare != nil {
		prepare(svc)
	}
	n.stop = run(t, svc)
	return n
}

// run runs a service; stop ends it and waits.
func run(t testing.TB, svc *session.Service) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ready := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := svc.Run(ctx, func() { close(ready) }); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	<-ready
	return sync.OnceFunc(func() {
		cancel()
		wg.Wait()
	})
}

// metric is the value of a counter, summed over the labels that match.
func (n *node) metric(t testing.TB, name string, labels ...string) float64 {
	t.Helper()
	families, err := n.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var sum float64
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			if matches(m, labels) {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

func matches(m *dto.Metric, labels []string) bool {
	for _, want := range labels {
		found := false
		for _, l := range m.GetLabel() {
			found = found || l.GetValue() == want
		}
		if !found {
			return false
		}
	}
	return true
}

// echo answers every request with its payload.
func echo(s *session.Service) {
	s.Handle(oap.ProtoIndex, func(_ context.Context, _ peer.ID, r *session.Request) session.Response {
		return session.Response{Payload: r.Payload}
	})
}

// wire is a peer without a service: it writes what a test tells it to.
type wire struct {
	t      testing.TB
	stream *testkit.Stream
	r      *oap.Reader
	w      *oap.Writer
}

func newWire(t testing.TB, s *testkit.Stream) *wire {
	return &wire{t: t, stream: s, r: oap.NewReader(s, oap.MaxFrame), w: oap.NewWriter(s, oap.MaxFrame)}
}

// dial opens a session stream to a node.
func dial(t testing.TB, h *testkit.Host, p peer.ID) *wire {
	t.Helper()
	s, err := h.NewStream(t.Context(), p, session.ProtocolID)
	if err != nil {
		t.Fatal(err)
	}
	return newWire(t, s.(*testkit.Stream))
}

const whole = oap.FlagReq | oap.FlagStart | oap.FlagEnd

func (w *wire) send(h oap.Header, payload string) {
	w.t.Helper()
	if err := w.w.Write(oap.Frame{Header: h, Payload: []byte(payload)}); err != nil {
		w.t.Fatalf("send: %v", err)
	}
}

// ask sends a request of the index protocol.
func (w *wire) ask(corr uint64, payload string) {
	w.t.Helper()
	w.send(oap.Header{Flags: whole, Proto: oap.ProtoIndex, CorrID: corr}, payload)
}

func (w *wire) hello() {
	w.t.Helper()
	w.send(oap.Header{Flags: whole}, `{"ua":"wire/1","features":["teleport"],"new":1}`)
	f := w.recv()
	if f.Flags != oap.FlagResp|oap.FlagEnd || f.Code != 200 || f.CorrID != 0 {
		w.t.Fatalf("HELLO answered with %+v", f.Header)
	}
	if _, err := oap.DecodeHelloResponse(f.Payload); err != nil {
		w.t.Fatal(err)
	}
}

func (w *wire) recv() oap.Frame {
	w.t.Helper()
	f, err := w.r.Next()
	if err != nil {
		w.t.Fatalf("recv: %v", err)
	}
	return f
}

// wantAnswer receives the answer to corr with that code and reason.
func (w *wire) wantAnswer(corr uint64, code uint16, reason string) {
	w.t.Helper()
	f := w.recv()
	if !f.Flags.Has(oap.FlagResp|oap.FlagEnd) || f.CorrID != corr || f.Code != code ||
		!strings.Contains(string(f.Payload), reason) {
		w.t.Fatalf("got %s corr %d code %d %s; want corr %d code %d %s", f.Flags, f.CorrID,
			f.Code, f.Payload, corr, code,
			reason)
	}
}

// wantReset waits for the stream to be reset with a code.
func (w *wire) wantReset(code network.StreamErrorCode) {
	w.t.Helper()
	_, err := w.r.Next()
	var se *network.StreamError
	if !errors.As(err, &se) || !se.Remote || se.ErrorCode != code {
		w.t.Fatalf("got %v, want a reset with %#x", err, code)
	}
}

// wantClose waits for a clean end of the stream.
func (w *wire) wantClose() {
	w.t.Helper()
	if f, err := w.r.Next(); !errors.Is(err, io.EOF) {
		w.t.Fatalf("got %+v, %v; want a clean end", f.Header, err)
	}
}

func reset(r oap.Reason) network.StreamErrorCode { return network.StreamErrorCode(r.StreamErrorCode()) }

// bubble runs f in a synctest bubble with a network that is closed after it.
func bubble(t *testing.T, o testkit.Options, f func(t *testing.T, n *testkit.Network)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := testkit.NewNetwork(o)
		defer n.Close()
		f(t, n)
	})
}

// elapsed fails unless what f does takes exactly d of the bubble's time.
func elapsed(t *testing.T, d time.Duration, f func()) {
	t.Helper()
	start := time.Now()
	f()
	if got := time.Since(start); got != d {
		t.Errorf("took %s, want %s", got, d)
	}
}
