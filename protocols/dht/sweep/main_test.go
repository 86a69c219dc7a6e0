package sweep

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	ds "github.com/ipfs/go-datastore"
	dssync "github.com/ipfs/go-datastore/sync"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"allium/protocols/b3"
	"allium/protocols/kad"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errDown = errors.New("the network is down")

// world is a network whose lookups are exact and whose peers take every PUT,
// unless it is told otherwise. A lookup takes 200 ms and a PUT 20 ms.
type world struct {
	mu     sync.Mutex
	peers  []peer.ID
	down   bool
	refuse func(p peer.ID, r b3.Root) bool // may be nil
	roots  map[b3.Root]bool                // what is announced
	addrs  []ma.Multiaddr

	lookups int
	listed  int
	puts    map[b3.Root]map[peer.ID]int // acknowledged
	last    map[b3.Root]time.Time       // acknowledgement
	gap     time.Duration               // the longest between two of one root
}

func newWorld(peers, roots int) *world {
	w := &world{
		roots: map[b3.Root]bool{}, addrs: []ma.Multiaddr{ma.StringCast("/ip4/192.0.2.1/tcp/4901")},
		puts: map[b3.Root]map[peer.ID]int{}, last: map[b3.Root]time.Time{},
	}
	w.grow(peers)
	for i := range roots {
		w.roots[object(i)] = true
	}
	return w
}

func object(i int) b3.Root { return b3.Sum(fmt.Appendf(nil, "object %d", i)) }

// grow makes the network n peers large.
func (w *world) grow(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.peers) < n {
		h := sha256.Sum256(fmt.Appendf(nil, "peer %d", len(w.peers)))
		w.peers = append(w.peers, peer.ID(append([]byte{0x12, 0x20}, h[:]...)))
	}
}

// set changes the network.
func (w *world) set(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// closest is the exact answer.
func (w *world) closest(key string, k int) []peer.ID {
	w.mu.Lock()
	peers := slices.Clone(w.peers)
	w.mu.Unlock()
	at := kad.Hash([]byte(key))
	far := make(map[peer.ID]kad.Key, len(peers))
	for _, p := range peers {
		h := kad.Hash([]byte(p))
		for i := range h {
			h[i] ^= at[i]
		}
		far[p] = h
	}
	slices.SortFunc(peers, func(a, b peer.ID) int {
		x, y := far[a], far[b]
		return cmp.Or(bytes.Compare(x[:], y[:]), cmp.Compare(a, b))
	})
	return peers[:min(k, len(peers))]
}

func (w *world) GetClosestPeers(ctx context.Context, key string) ([]peer.ID, error) {
	if err := pass(ctx, 200*time.Millisecond); err != nil {
		return nil, err
	}
	w.mu.Lock()
	w.lookups++
	down := w.down
	w.mu.Unlock()
	if down {
		return nil, errDown
	}
	return w.closest(key, 20), nil
}

func (w *world) put(ctx context.Context, p peer.ID, r b3.Root) error {
	if err := pass(ctx, 20*time.Millisecond); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down || w.refuse != nil && w.refuse(p, r) {
		return errDown
	}
	if w.puts[r] == nil {
		w.puts[r] = map[peer.ID]int{}
	}
	w.puts[r][p]++
	now := time.Now()
	if last, ok := w.last[r]; ok {
		w.gap = max(w.gap, now.Sub(last))
	}
	w.last[r] = now
	return nil
}

func (w *world) list() iter.Seq[b3.Root] {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.listed++
	return maps.Keys(maps.Clone(w.roots))
}

// published is the number of roots with an acknowledgement, and of
// acknowledgements, since the last forget.
func (w *world) published() (roots, acks int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, peers := range w.puts {
		for _, n := range peers {
			acks += n
		}
	}
	return len(w.puts), acks
}

func (w *world) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.puts = map[b3.Root]map[peer.ID]int{}
	w.lookups = 0
}

// pass takes d, or ends with ctx.
func pass(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

func memory() ds.Batching { return dssync.MutexWrap(ds.NewMapDatastore()) }

// lines are the warnings of a log.
type lines struct {
	mu  sync.Mutex
	buf strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) count(s string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.buf.String(), s)
}

// run is one start of a sweep.
type run struct {
	*Sweep
	log  *lines
	stop func() // and wait for Run's nil
}

var pace = Config{Interval: 12 * time.Hour, MaxDelay: time.Hour, K: 20, Workers: 4}

// start runs a sweep over d in a bubble.
func (w *world) start(t *testing.T, d ds.Batching) *run {
	t.Helper()
	return w.startWith(t, pace, Deps{Datastore: d})
}

func (w *world) startWith(t *testing.T, cfg Config, deps Deps) *run {
	t.Helper()
	log := &lines{}
	deps.Self, deps.Roots = "self", w.list
	deps.Log = slog.New(slog.NewTextHandler(log, nil))
	deps.Addrs = func() []ma.Multiaddr {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.addrs
	}
	if deps.Router == nil {
		deps.Router = w
	}
	if deps.Put == nil {
		deps.Put = w.put
	}
	if deps.Metrics == nil {
		deps.Metrics = prometheus.NewRegistry()
	}
	s, err := New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	ready := make(chan struct{})
	go func() { ended <- s.Run(ctx, func() { close(ready) }) }()
	<-ready
	return &run{Sweep: s, log: log, stop: func() {
		t.Helper()
		began := time.Now()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("the end took %s", took)
		}
	}}
}

// bubble runs f in fake time.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// rest lets d pass, and what happens at its end.
func rest(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
