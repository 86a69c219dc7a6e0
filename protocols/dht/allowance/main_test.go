package allowance

import (
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"testing"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"allium/internal/env"
	"allium/internal/limits"
	"allium/protocols/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// maxMessage is what the tests let through.
const maxMessage = 16 << 10

// tested is a guard with its list of limits.
type tested struct {
	*Guard
	limits *limits.Registry
}

// newTested returns a guard with the default limits but for what change does.
func newTested(t testing.TB, change func(*Config)) *tested {
	t.Helper()
	cfg := DefaultConfig()
	if change != nil {
		change(&cfg)
	}
	registry := limits.NewRegistry(nil)
	e := env.Env{Metrics: prometheus.NewPedanticRegistry(), Limits: registry}
	g, err := New(cfg, Deps{Env: e, Cores: runtime.GOMAXPROCS(0)})
	if err != nil {
		t.Fatal(err)
	}
	return &tested{g, registry}
}

// limit is the limit of that name.
func (g *tested) limit(t testing.TB, name string) limits.Info {
	t.Helper()
	for _, l := range g.limits.Snapshot() {
		if l.Name == name {
			return l
		}
	}
	t.Fatalf("no limit %s", name)
	return limits.Info{}
}

// wantFree checks that nothing is taken of any limit.
func (g *tested) wantFree(t testing.TB) {
	t.Helper()
	for _, l := range g.limits.Snapshot() {
		if l.Current != 0 {
			t.Errorf("%s: %d still taken", l.Name, l.Current)
		}
	}
	g.accounts.mu.Lock()
	defer g.accounts.mu.Unlock()
	if n := len(g.accounts.active); n != 0 {
		t.Errorf("%d accounts still in use", n)
	}
}

// wantRejected checks how often the limit refused.
func (g *tested) wantRejected(t testing.TB, k kind, want float64) {
	t.Helper()
	if got := testutil.ToFloat64(g.m.rejected.WithLabelValues(string(k))); got != want {
		t.Errorf("quota_reject_total{kind=%q} is %v, want %v", k, got, want)
	}
}

func wantRefused(t testing.TB, err error, o status.Outcome, name string) {
	t.Helper()
	var e *status.Error
	if !errors.As(err, &e) || e.Outcome != o || e.Limit == nil || e.Limit.Name != name || e.Limit.Cap < 1 ||
		e.Limit.RetryAfter <= 0 {
		t.Fatalf("got %v, want %s of %s with its numbers", err, o, name)
	}
}

// frame is a message as it travels.
func frame(msg []byte) []byte { return append(binary.AppendUvarint(nil, uint64(len(msg))), msg...) }

// wantReset reads until the stream ends and checks that the other side reset it
// with that code.
func wantReset(t testing.TB, r io.Reader, code network.StreamErrorCode) {
	t.Helper()
	_, err := io.Copy(io.Discard, r)
	var se *network.StreamError
	if !errors.As(err, &se) || !se.Remote || se.ErrorCode != code {
		t.Fatalf("the stream ended with %v, want a reset with code %#x", err, code)
	}
}
