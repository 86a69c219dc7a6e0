package resolver

import (
	"context"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/patience"
	"allium/protocols/status"
)

// outage is a source that is away from some group on, for a time.
type outage struct {
	after int           // groups that it sends before
	last  time.Duration // how long it is away; negative: for good
	down  bool          // it is unreachable meanwhile, otherwise it is silent

	mu    sync.Mutex
	sent  int
	begun time.Time
}

// away reports whether the source is away now.
func (o *outage) away() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.begun.IsZero() && (o.last < 0 || time.Since(o.begun) < o.last)
}

// on makes p have the outage.
func (o *outage) on(p *fakePeer) {
	refused := func(ctx context.Context) error {
		if !o.down {
			return stall(ctx)
		}
		return status.Errorf(status.TransportDown, "fake: connection refused")
	}
	p.before = func(ctx context.Context, _ int64) error {
		if err := every(time.Millisecond)(ctx, 0); err != nil {
			return err
		}
		o.mu.Lock()
		if o.sent++; o.sent == o.after {
			o.begun = time.Now()
		}
		o.mu.Unlock()
		if o.away() {
			return refused(ctx)
		}
		return nil
	}
	p.refuse = func(int) error {
		if o.away() && o.down {
			return refused(context.Background())
		}
		return nil
	}
	p.silent = func() bool { return o.away() && !o.down }
}

// TestFetchesRideOutAPause: the only source of what has begun is silent for 20 s, or unreachable for 10 s, and comes
// back. Nothing that arrived is asked for again, but what was under way.
func TestFetchesRideOutAPause(t *testing.T) {
	large := randomBlob(300, 8<<20)
	tree := append(levels(t, 3), flat(t, 301, 2000, 100)...)
	for name, do := range map[string]func(w *world, ctx context.Context) error{
		"fetch": func(w *world, ctx context.Context) error {
			_, err := w.Fetch(ctx, large.root, FetchOptions{})
			return err
		},
		"read": func(w *world, ctx context.Context) error {
			c, err := w.Open(ctx, large.root, Whole(Sources{}))
			if err != nil {
				return err
			}
			defer c.Close()
			_, err = io.Copy(io.Discard, c)
			return err
		},
		"tree": func(w *world, ctx context.Context) error {
			_, err := w.FetchTree(ctx, last(tree).root, FetchOptions{})
			return err
		},
	} {
		for _, o := range []*outage{{after: 40, last: 20 * time.Second}, {after: 40, last: 10 * time.Second, down: true}} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, nil)
					all := append([]*blob{large}, tree...)
					o.on(w.net.peer("a", all...))
					w.has([]peer.ID{"a"}, large, last(tree))
					begun := time.Now()
					if err := do(w, patience.With(t.Context())); err != nil {
						t.Fatal(err)
					}
					// A request of the outage's last moment is silent for 10 s, then comes the longest pause.
					if took := time.Since(begun); took < o.last || took > o.last+17*time.Second {
						t.Errorf("it took %s", took)
					}
					if n := len(w.net.requests("")); n > 200 {
						t.Errorf("%d requests", n)
					}
				})
			})
		}
	}
}

// TestPausesEnd: how long a fetch waits for a source that does not come back.
func TestPausesEnd(t *testing.T) {
	for _, tc := range []struct {
		name     string
		ctx      func(context.Context) (context.Context, context.CancelFunc)
		after    int // groups
		from, to time.Duration
	}{
		{"what has begun", nil, 40, 55 * time.Second, 70 * time.Second},
		{"with a deadline that is longer", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 5*time.Minute)
		}, 40, 5 * time.Minute, 5 * time.Minute},
		{"with a deadline that is shorter", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 7*time.Second)
		}, 40, 7 * time.Second, 7 * time.Second},
		{"what has not begun", nil, 0, 0, 12 * time.Second},
	} {
		for _, kind := range []string{"fetch", "tree"} {
			t.Run(tc.name+", "+kind, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, nil)
					w.local.takes = 1 // the transfer begins after its caller joined
					large, all := randomBlob(302, 8<<20), flat(t, 303, 2000, 100)
					o := &outage{after: tc.after, last: -1, down: true}
					if tc.after == 0 {
						o.begun = time.Now()
					}
					o.on(w.net.peer("a", append(all, large)...))
					w.has([]peer.ID{"a"}, large, last(all))
					ctx := patience.With(t.Context())
					if tc.ctx != nil {
						var cancel context.CancelFunc
						ctx, cancel = tc.ctx(ctx)
						defer cancel()
					}
					begun := time.Now()
					var err error
					if kind == "tree" {
						_, err = w.FetchTree(ctx, last(all).root, FetchOptions{})
					} else {
						_, err = w.Fetch(ctx, large.root, FetchOptions{})
					}
					took := time.Since(begun)
					if err == nil || took < tc.from || took > tc.to {
						t.Errorf("it ended after %s with %v, want %s to %s", took, err, tc.from, tc.to)
					}
					if n := len(w.net.requests("")); n > 300 {
						t.Errorf("%d requests in %s", n, took)
					}
				})
			})
		}
	}
}

// TestNobodyWaitsForWhatIsLacking: sources that answer that they lack an object of a directory are not waited for.
func TestNobodyWaitsForWhatIsLacking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		all := flat(t, 304, 1000, 30)
		p := w.net.peer("a", all...)
		delete(p.objects, all[7].root)
		w.has([]peer.ID{"a"}, last(all))
		begun := time.Now()
		_, err := w.FetchTree(patience.With(t.Context()), last(all).root, FetchOptions{})
		if took := time.Since(begun); status.Of(err) != status.NotFound || took > 3*time.Second {
			t.Errorf("it ended after %s with %v", took, err)
		}
	})
}

// TestASourceMoves: a source restarts with another address, which the search for it during the wait finds. The dialer
// is told, and told to forget that a dial has failed.
func TestASourceMoves(t *testing.T) {
	for _, kind := range []string{"fetch", "tree"} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil)
				large, all := randomBlob(305, 8<<20), flat(t, 306, 2000, 100)
				a := w.net.peer("a", append(all, large)...)
				w.has([]peer.ID{"a"}, large, last(all))
				w.finder.moves(a, "a", "/ip4/127.0.0.1/tcp/1")
				a.before = paced(time.Millisecond)
				time.AfterFunc(60*time.Millisecond, func() { w.finder.moves(a, "a", "/ip4/127.0.0.1/tcp/2") })
				ctx := patience.With(t.Context())
				var err error
				if kind == "tree" {
					_, err = w.FetchTree(ctx, last(all).root, FetchOptions{})
				} else {
					_, err = w.Fetch(ctx, large.root, FetchOptions{})
				}
				if err != nil {
					t.Error(err)
				}
				if kind == "fetch" && len(w.net.redials) == 0 {
					t.Error("the dialer keeps its pause after the failed dial")
				}
			})
		})
	}
}
