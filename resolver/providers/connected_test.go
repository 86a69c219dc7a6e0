package providers

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
	"allium/protocols/dht/probes"
	"allium/protocols/record"
	"allium/protocols/status"
)

// neighbour is what a connected peer does when it is asked.
type neighbour struct {
	after time.Duration
	has   bool
	err   error
}

// neighbours are connected peers and a DHT, which note when they are asked.
type neighbours struct {
	peers map[peer.ID]neighbour
	dht   neighbour
	found []peer.ID // by the DHT

	mu    sync.Mutex
	begun time.Time
	asked []string // peer@milliseconds
	open  int
}

func (n *neighbours) ask(ctx context.Context, who peer.ID, b neighbour) error {
	n.mu.Lock()
	n.asked = append(n.asked, fmt.Sprintf("%s@%d", string(who), time.Since(n.begun).Milliseconds()))
	n.open++
	n.mu.Unlock()
	defer func() { n.mu.Lock(); n.open--; n.mu.Unlock() }()
	select {
	case <-time.After(b.after):
		return b.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (n *neighbours) have(ctx context.Context, p peer.ID, _ b3.Root) (b3.Presence, error) {
	if err := n.ask(ctx, p, n.peers[p]); err != nil || !n.peers[p].has {
		return b3.Absent, err
	}
	return b3.Complete, nil
}

func (n *neighbours) FindProviders(ctx context.Context, _ b3.Root, _ FindOptions) iter.Seq2[record.Provider, error] {
	return func(yield func(record.Provider, error) bool) {
		if err := n.ask(ctx, "dht", n.dht); err != nil {
			yield(record.Provider{}, err)
			return
		}
		for _, p := range n.found {
			if !yield(record.Provider{AddrInfo: peer.AddrInfo{ID: p}, Origin: record.OriginDHT}, nil) {
				return
			}
		}
	}
}

// search runs one search and returns what it found as peer:origin, and the last error.
func (n *neighbours) search(t *testing.T, opt FindOptions) (found []string, last error) {
	t.Helper()
	n.begun = time.Now()
	var cfg atomic.Pointer[Config]
	cfg.Store(&Config{HedgeAfter: 150 * time.Millisecond})
	c := &connected{
		peers: newPeers(testConfig(), nil, func() {}), have: n.have, next: n, cfg: &cfg,
		guard: func(f func() error) error { return f() },
		all: func() (all []peer.ID) {
			for p := range n.peers {
				all = append(all, p)
			}
			slices.Sort(all)
			return all
		},
	}
	ctx, cancel := context.WithTimeout(t.Context(), 1200*time.Millisecond)
	defer cancel()
	for p, err := range c.FindProviders(ctx, b3.Sum([]byte("an object")), opt) {
		if err != nil {
			last = err
			continue
		}
		found = append(found, fmt.Sprintf("%s:%s", string(p.ID), p.Origin))
	}
	if n.open != 0 {
		t.Errorf("%d requests go on", n.open)
	}
	slices.Sort(n.asked)
	return found, last
}

// TestConnected: who is asked, when, and what comes of it.
func TestConnected(t *testing.T) {
	const ms = time.Millisecond
	down := status.Errorf(status.TransportDown, "no way")
	nobody := status.Errorf(status.NoBootstrap, "no peers yet")
	for label, tc := range map[string]struct {
		peers map[peer.ID]neighbour
		dht   neighbour
		found []peer.ID
		opt   FindOptions
		asked []string
		want  []string
		err   status.Outcome
		took  time.Duration
	}{
		"a neighbour has it": {
			peers: map[peer.ID]neighbour{"a": {after: 5 * ms}, "b": {after: 5 * ms, has: true}},
			opt:   FindOptions{Limit: 1}, asked: []string{"a@0", "b@0"}, want: []string{"b:connected"}, took: 5 * ms,
		},
		"it is not fast enough": {
			peers: map[peer.ID]neighbour{"a": {after: 60 * ms, has: true}}, dht: neighbour{after: 20 * ms},
			found: []peer.ID{"x"}, opt: FindOptions{Limit: 1},
			asked: []string{"a@0", "dht@20"}, want: []string{"x:dht"}, took: 40 * ms,
		},
		"nobody has it": {
			peers: map[peer.ID]neighbour{"a": {after: 5 * ms}, "b": {after: 10 * ms}}, dht: neighbour{after: 100 * ms},
			asked: []string{"a@0", "b@0", "dht@10"}, took: 110 * ms,
		},
		"nobody has it, and one is silent": {
			peers: map[peer.ID]neighbour{"a": {after: time.Hour}}, dht: neighbour{after: 100 * ms},
			asked: []string{"a@0", "dht@20"}, took: 140 * ms,
		},
		"the DHT knows nobody, and the neighbour is slow": {
			peers: map[peer.ID]neighbour{"a": {after: 140 * ms, has: true}}, dht: neighbour{err: nobody},
			asked: []string{"a@0", "dht@20"}, want: []string{"a:connected"}, took: 140 * ms, err: status.NoBootstrap,
		},
		"the DHT knows nobody, and the neighbour is silent": {
			peers: map[peer.ID]neighbour{"a": {after: time.Hour, has: true}}, dht: neighbour{err: nobody},
			asked: []string{"a@0", "dht@20"}, took: 150 * ms, err: status.NoBootstrap,
		},
		"neighbours fail": {
			peers: map[peer.ID]neighbour{"a": {err: down}, "b": {err: down}}, found: []peer.ID{"x"},
			asked: []string{"a@0", "b@0", "dht@0"}, want: []string{"x:dht"},
		},
		"the record of a neighbour follows": {
			peers: map[peer.ID]neighbour{"a": {has: true}}, found: []peer.ID{"a", "x"}, opt: FindOptions{Limit: 2},
			asked: []string{"a@0", "dht@20"}, want: []string{"a:connected", "a:dht", "x:dht"}, took: 20 * ms,
		},
		"a fresh search": {
			peers: map[peer.ID]neighbour{"a": {has: true}, "b": {after: 10 * ms}}, dht: neighbour{after: 5 * ms},
			found: []peer.ID{"x"}, opt: FindOptions{Fresh: true},
			asked: []string{"a@0", "b@0", "dht@0"}, want: []string{"a:connected", "x:dht"}, took: 10 * ms,
		},
		"inside a directory": {
			peers: map[peer.ID]neighbour{"a": {has: true}}, found: []peer.ID{"x"}, opt: FindOptions{Inner: true},
			asked: []string{"dht@0"}, want: []string{"x:dht"},
		},
		"asked before": {
			peers: map[peer.ID]neighbour{"a": {has: true}, "b": {}},
			opt:   FindOptions{asked: map[peer.ID]struct{}{"a": {}}}, asked: []string{"b@0", "dht@0"},
		},
		"nobody answers": {
			peers: map[peer.ID]neighbour{"a": {after: time.Hour}}, dht: neighbour{after: time.Hour},
			asked: []string{"a@0", "dht@20"}, took: 1200 * ms, err: status.Timeout,
		},
	} {
		t.Run(label, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &neighbours{peers: tc.peers, dht: tc.dht, found: tc.found}
				trace := &probes.Trace{}
				tc.opt.Trace = trace
				found, err := n.search(t, tc.opt)
				if took := time.Since(n.begun); took != tc.took {
					t.Errorf("took %s, want %s", took, tc.took)
				}
				if !slices.Equal(n.asked, tc.asked) || !slices.Equal(found, tc.want) || status.Of(err) != tc.err {
					t.Errorf("asked %v, found %v, %v; want %v, %v, %s", n.asked, found, err, tc.asked, tc.want, tc.err)
				}
				asked := slices.DeleteFunc(slices.Clone(n.asked),
					func(s string) bool { return strings.HasPrefix(s, "dht@") })
				if len(trace.Steps) != len(asked) || trace.Probes != len(asked) {
					t.Errorf("the trace has %d steps, want %d", len(trace.Steps), len(asked))
				}
			})
		})
	}
}

// TestConnectedBounds: sixteen are asked at once, the next when these have answered or are late, each
// once, and not all of very many.
func TestConnectedBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &neighbours{peers: map[peer.ID]neighbour{}, dht: neighbour{after: time.Hour}}
		for i := range 200 {
			b := neighbour{after: time.Hour}
			if i%2 == 0 {
				b.after = 10 * time.Millisecond
			}
			n.peers[peer.ID(fmt.Sprintf("%03d", i))] = b
		}
		_, _ = n.search(t, FindOptions{})
		at := map[string]int{}
		once := map[string]bool{}
		for _, s := range n.asked {
			p, when, _ := strings.Cut(s, "@")
			if once[p] {
				t.Errorf("%s was asked twice", p)
			}
			once[p] = true
			at[when]++
		}
		if len(once) != maxConnected+1 || at["0"] != connectedAtOnce ||
			at["10"] != connectedAtOnce/2 || at["150"] == 0 {
			t.Errorf("%d were asked, at %v", len(once), at)
		}
	})
}

// TestConnectedOnce: a lookup that is tried again asks nobody again.
func TestConnectedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &neighbours{
			peers: map[peer.ID]neighbour{"a": {after: time.Millisecond}, "b": {after: time.Millisecond}},
			dht:   neighbour{err: status.Errorf(status.TransportDown, "no way")},
		}
		n.begun = time.Now()
		w := newFixture(t, nil)
		p, err := New(*w.cfg.Load(), Deps{
			Finder: n, Self: "self", Client: haveClient{of: n},
			Connected: func() []peer.ID { return []peer.ID{"a", "b"} },
		})
		if err != nil {
			t.Fatal(err)
		}
		_, err = p.Resolve(t.Context(), w.tasks, b3.Sum(nil), Query{}, nil)
		if status.Of(err) != status.TransportDown {
			t.Errorf("%v", err)
		}
		synctest.Wait()
		var peers, dht int
		for _, s := range n.asked {
			if strings.HasPrefix(s, "dht") {
				dht++
			} else {
				peers++
			}
		}
		if peers != 2 || dht != maxTries {
			t.Errorf("asked %v", n.asked)
		}
	})
}

// haveClient is the object client of neighbours.
type haveClient struct {
	Client // nil: nothing is fetched
	of     *neighbours
}

func (c haveClient) Have(ctx context.Context, p peer.ID, roots []b3.Root) ([]b3.Presence, error) {
	has, err := c.of.have(ctx, p, roots[0])
	return []b3.Presence{has}, err
}
