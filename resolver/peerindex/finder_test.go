package peerindex

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"go.uber.org/goleak"

	"allium/protocols/b3"
	"allium/protocols/dht/probes"
	"allium/protocols/name"
	"allium/protocols/record"
	"allium/protocols/status"
	"allium/resolver/providers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const hedge = 150 * time.Millisecond

var object = b3.Sum([]byte("an object"))

// behaviour is what a source does.
type behaviour struct {
	after time.Duration
	found []string // providers
	seq   uint64   // of the name's record; 0: none
	err   error
}

// world has peers that are asked, and the DHT under the name "dht".
type world struct {
	t       *testing.T
	sources map[string]behaviour

	mu    sync.Mutex
	asked []string // name@milliseconds
	begun time.Time
	left  int // requests that have not returned
}

func (w *world) ask(ctx context.Context, who string) (behaviour, error) {
	w.mu.Lock()
	w.asked = append(w.asked, fmt.Sprintf("%s@%d", who, time.Since(w.begun).Milliseconds()))
	w.left++
	w.mu.Unlock()
	defer func() { w.mu.Lock(); w.left--; w.mu.Unlock() }()
	b := w.sources[who]
	select {
	case <-time.After(b.after):
		return b, b.err
	case <-ctx.Done():
		return behaviour{}, ctx.Err()
	}
}

func (w *world) providers(names []string, from record.Origin) (all []record.Provider) {
	for _, n := range names {
		all = append(all, record.Provider{AddrInfo: peer.AddrInfo{ID: peer.ID(n)}, Origin: from})
	}
	return all
}

func (w *world) Providers(ctx context.Context, p peer.ID, _ b3.Root, _ int) ([]record.Provider, error) {
	b, err := w.ask(ctx, string(p))
	if err == nil && len(b.found) == 0 {
		err = status.Errorf(status.NotFound, "nobody")
	}
	return w.providers(b.found, record.OriginServed), err
}

func (w *world) Name(ctx context.Context, p peer.ID, n name.Name) (name.Versions, error) {
	b, err := w.ask(ctx, string(p))
	if err == nil && b.seq == 0 {
		err = status.Errorf(status.NotFound, "no record")
	}
	return w.versions(n, b.seq), err
}

// versions returns the record of a name, which nobody checks here.
func (w *world) versions(n name.Name, seq uint64) (v name.Versions) {
	if seq == 0 {
		return v
	}
	v, _ = v.Add(name.Signed{Record: name.Record{Name: n, Seq: seq}})
	return v
}

func (w *world) FindProviders(
	ctx context.Context, _ b3.Root, _ providers.FindOptions,
) iter.Seq2[record.Provider, error] {
	return func(yield func(record.Provider, error) bool) {
		b, err := w.ask(ctx, "dht")
		for _, p := range w.providers(b.found, record.OriginDHT) {
			if !yield(p, nil) {
				return
			}
		}
		if err != nil {
			yield(record.Provider{}, err)
		}
	}
}

func (w *world) FindName(
	ctx context.Context, n name.Name, _ bool, _ *probes.Trace,
) (name.Versions, record.Origin, error) {
	b, err := w.ask(ctx, "dht")
	return w.versions(n, b.seq), record.OriginDHT, err
}

func (w *world) AddAddrs(peer.AddrInfo) {}
func (w *world) Redial(peer.ID)         {}

func (w *world) finder() *Finder {
	w.begun = time.Now()
	cfg := Config{Peers: []peer.AddrInfo{{ID: "one"}, {ID: "two"}}, HedgeAfter: func() time.Duration { return hedge }}
	return New(cfg, Deps{
		Index: w, Dialer: w, Providers: w, Names: w,
	})
}

var (
	none        = behaviour{after: 10 * time.Millisecond}
	silent      = behaviour{after: time.Hour}
	fails       = behaviour{after: 10 * time.Millisecond, err: status.Errorf(status.TransportDown, "no way")}
	noBootstrap = behaviour{err: status.Errorf(status.NoBootstrap, "no peers yet")}
)

func has(after time.Duration, found ...string) behaviour {
	return behaviour{after: after, found: found, seq: 1}
}

// TestOrder: who is asked, when, and what comes of it.
func TestOrder(t *testing.T) {
	for label, tc := range map[string]struct {
		one, two, dht behaviour
		fresh         bool
		limit         int
		asked         []string
		found         []string
		want          status.Outcome
		took          time.Duration
	}{
		"the first has enough": {
			one: has(20*time.Millisecond, "x"), limit: 1, asked: []string{"one@0"}, found: []string{"x"},
			took: 20 * time.Millisecond,
		},
		"the first is silent": {
			one: silent, two: has(20*time.Millisecond, "x"), limit: 1, asked: []string{"one@0", "two@150"},
			found: []string{"x"}, took: 170 * time.Millisecond,
		},
		"all but the DHT are silent": {
			one: silent, two: silent, dht: has(0, "x"), limit: 1, asked: []string{"one@0", "two@150", "dht@300"},
			found: []string{"x"}, took: 300 * time.Millisecond,
		},
		"the first knows nobody, the second fails": {
			one: none, two: fails, dht: has(0, "x"), limit: 1, asked: []string{"one@0", "two@10", "dht@20"},
			found: []string{"x"}, took: 20 * time.Millisecond,
		},
		"not enough is followed after the hedge": {
			one: has(20*time.Millisecond, "x"), two: has(0, "x", "y"), limit: 2, asked: []string{"one@0", "two@170"},
			found: []string{"x", "y"}, took: 170 * time.Millisecond,
		},
		"fresh asks all": {
			one: has(20*time.Millisecond, "x"), two: none, dht: has(30*time.Millisecond, "y"), fresh: true, limit: 5,
			asked: []string{"one@0", "two@0", "dht@0"}, found: []string{"x", "y"}, took: 30 * time.Millisecond,
		},
		"nobody knows it": {
			one: none, two: none, dht: none, limit: 1, asked: []string{"one@0", "two@10", "dht@20"},
			took: 30 * time.Millisecond,
		},
		"without a DHT": {
			one: none, two: fails, dht: noBootstrap, limit: 1, asked: []string{"one@0", "two@10", "dht@20"},
			took: 20 * time.Millisecond,
		},
		"without anybody": {
			one: fails, two: fails, dht: noBootstrap, limit: 1, asked: []string{"one@0", "two@10", "dht@20"},
			want: status.NoBootstrap, took: 20 * time.Millisecond,
		},
		"everybody is silent": {
			one: silent, two: silent, dht: silent, limit: 1, asked: []string{"one@0", "two@150", "dht@300"},
			want: status.Timeout, took: time.Second,
		},
	} {
		t.Run(label, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &world{t: t, sources: map[string]behaviour{"one": tc.one, "two": tc.two, "dht": tc.dht}}
				f := w.finder()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				var found []string
				var last error
				trace := &probes.Trace{}
				for p, err := range f.FindProviders(ctx, object, providers.FindOptions{
					Limit: tc.limit, Fresh: tc.fresh, Trace: trace,
				}) {
					if err != nil {
						last = err
						continue
					}
					found = append(found, string(p.ID))
				}
				if took := time.Since(w.begun); took != tc.took {
					t.Errorf("took %s, want %s", took, tc.took)
				}
				slices.Sort(w.asked)
				slices.Sort(tc.asked)
				if !slices.Equal(w.asked, tc.asked) || !slices.Equal(found, tc.found) || status.Of(last) != tc.want {
					t.Errorf("asked %v, found %v, %v; want %v, %v, %s", w.asked, found, last,
						tc.asked, tc.found, tc.want)
				}
				if w.left != 0 {
					t.Errorf("%d requests go on", w.left)
				}
				peers := len(tc.asked)
				if slices.ContainsFunc(tc.asked, func(s string) bool { return s[:3] == "dht" }) {
					peers--
				}
				if len(trace.Steps) != peers || trace.Probes != peers {
					t.Errorf("the trace has %d steps, want %d", len(trace.Steps), peers)
				}
			})
		})
	}
}

// TestName: the first record is taken, of a fresh search the highest.
func TestName(t *testing.T) {
	for label, tc := range map[string]struct {
		one, two, dht behaviour
		fresh         bool
		seq           uint64
		from          record.Origin
		want          status.Outcome
	}{
		"of the first peer": {one: behaviour{seq: 3}, dht: behaviour{seq: 9}, seq: 3, from: record.OriginServed},
		"of the DHT":        {one: none, two: fails, dht: behaviour{seq: 9}, seq: 9, from: record.OriginDHT},
		"fresh, a peer's": {
			one: behaviour{seq: 9}, two: behaviour{seq: 4}, dht: behaviour{seq: 3},
			fresh: true, seq: 9, from: record.OriginServed,
		},
		"fresh, the DHT's": {
			one: behaviour{seq: 3}, two: silent, dht: behaviour{seq: 9},
			fresh: true, seq: 9, from: record.OriginDHT,
		},
		"nobody has it":      {one: none, two: none, dht: behaviour{}, from: record.OriginDHT},
		"no DHT, and absent": {one: none, two: none, dht: noBootstrap, from: record.OriginDHT},
		"stale": {
			one: behaviour{err: status.Errorf(status.Stale, "old")}, two: fails, dht: fails,
			want: status.TransportDown, from: record.OriginDHT,
		},
	} {
		t.Run(label, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &world{t: t, sources: map[string]behaviour{"one": tc.one, "two": tc.two, "dht": tc.dht}}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				v, from, err := w.finder().FindName(ctx, name.Name{}, tc.fresh, &probes.Trace{})
				if v.Seq() != tc.seq || from != tc.from || status.Of(err) != tc.want {
					t.Errorf("got seq %d from %s, %v; want %d from %s, %s", v.Seq(), from,
						err, tc.seq, tc.from, tc.want)
				}
				if w.left != 0 {
					t.Errorf("%d requests go on", w.left)
				}
			})
		})
	}
}
