package resolver

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"pgregory.net/rapid"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// stall blocks as a peer that stops sending does: until the asker gives up.
func stall(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// fetch fetches b, and checks that it is local then.
func (w *world) fetch(t *testing.T, b *blob) error {
	t.Helper()
	info, err := w.Fetch(t.Context(), b.root, FetchOptions{})
	if err == nil && (!w.local.has(b.root) || info.Size != int64(len(b.data))) {
		t.Errorf("fetched %+v, local: %t", info, w.local.has(b.root))
	}
	return err
}

func TestFetchGoesOnWithTheNextProvider(t *testing.T) {
	cut := errors.New("cut")
	for _, tc := range []struct {
		name  string
		first func(p *fakePeer)
		rest  int64 // the first group asked of the second provider; −1: it is asked for the size too
		want  status.Outcome
	}{
		{"a wrong group", func(p *fakePeer) { p.spoil = func(_ b3.Root, g int64) bool { return g == 5 } }, 5,
			status.Corrupt},
		{"a wrong first group", func(p *fakePeer) { p.spoil = func(_ b3.Root, g int64) bool { return g == 0 } }, 0,
			status.Corrupt},
		{"a false size", func(p *fakePeer) { p.lieSize = group }, -1, status.Corrupt},
		{"a stream that breaks", func(p *fakePeer) {
			p.before = func(_ context.Context, g int64) error {
				if g == 7 {
					return status.Errorf(status.Upstream, "%w", cut)
				}
				return nil
			}
		}, 7, status.Upstream},
		{"a stream that stalls", func(p *fakePeer) {
			p.before = func(ctx context.Context, g int64) error {
				if g == 3 {
					return stall(ctx)
				}
				return nil
			}
		}, 3, status.Timeout},
		{"no answer", func(p *fakePeer) { p.latency = time.Hour }, -1, status.Timeout},
		{"not there", func(p *fakePeer) { clear(p.objects) }, -1, status.NotFound},
		{"an answer without end", func(p *fakePeer) {
			p.before = func(_ context.Context, g int64) error {
				if g == 9 {
					return status.Errorf(status.Upstream, "too much")
				}
				return nil
			}
		}, 9, status.Upstream},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil)
				b := randomBlob(20, 12*group+9)
				tc.first(w.net.peer("bad", b))
				w.net.peer("good", b)
				w.has([]peer.ID{"bad", "good"}, b)
				if err := w.fetch(t, b); err != nil {
					t.Fatal(err)
				}
				if n := len(w.net.requests("bad")); n != 1 {
					t.Errorf("%d requests to the bad provider", n)
				}
				reqs := w.net.requests("good")
				if len(reqs) != 1 {
					t.Fatalf("%d requests to the good provider", len(reqs))
				}
				want := []b3.Range{{Start: tc.rest * group, End: 12 * group}} // the last group proved the size
				if tc.want == status.Timeout {
					want[0].End = 12*group + 9 // a request is doubled as it was made
				}
				if tc.rest < 0 {
					want = []b3.Range{{Start: 0, End: firstSpan * group}}
				}
				if !slices.Equal(reqs[0].Ranges, want) || reqs[0].SizeProof != (tc.rest < 0) {
					t.Errorf("asked the good provider for %v, size proof %t; want %v",
						reqs[0].Ranges, reqs[0].SizeProof, want)
				}
			})
		})
		t.Run(tc.name+" everywhere", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil)
				b := randomBlob(21, 12*group)
				for _, id := range []peer.ID{"p", "q"} {
					p := w.net.peer(id, b)
					tc.first(p)
					if before := p.before; before != nil { // no progress in later rounds either
						p.before = func(ctx context.Context, _ int64) error { return before(ctx, tc.rest) }
					}
				}
				w.has([]peer.ID{"p", "q"}, b)
				err := w.fetch(t, b)
				if status.Of(err) != tc.want {
					t.Fatalf("got %v (%s), want %s", err, status.Of(err), tc.want)
				}
				if !strings.Contains(err.Error(), "2 providers tried: 2 "+tc.want.String()) ||
					!strings.Contains(err.Error(), b.root.String()) {
					t.Errorf("the error does not name what was tried: %v", err)
				}
				var e *status.Error
				if !errors.As(err, &e) || len(e.LookupID) != 16 {
					t.Errorf("no lookup id in %#v", err)
				}
				if w.local.has(b.root) {
					t.Error("it is local all the same")
				}
			})
		})
	}
}

// One bad copy says more about an object than peers that were not reached.
func TestMostTellingError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		b := randomBlob(22, 3*group)
		w.net.peer("liar", b).spoil = func(b3.Root, int64) bool { return true }
		w.net.peer("slow", b).latency = time.Hour
		w.net.peer("none")
		w.has([]peer.ID{"none", "slow", "liar", "gone"}, b)
		err := w.fetch(t, b)
		if status.Of(err) != status.Corrupt {
			t.Fatalf("got %v", err)
		}
		for _, part := range []string{"4 providers tried", "1 not_found", "1 corrupt", "1 timeout", "1 transport_down"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q lacks %q", err, part)
			}
		}
	})
}

// A transfer that is cut again and again comes to its end, bit by bit.
func TestProgressSurvivesCuts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		b := randomBlob(23, 30*group)
		p := w.net.peer("a", b)
		n := 0
		p.before = func(context.Context, int64) error {
			if n++; n%4 == 0 {
				return status.Errorf(status.Upstream, "cut")
			}
			return nil
		}
		w.has([]peer.ID{"a"}, b)
		if err := w.fetch(t, b); err != nil {
			t.Fatal(err)
		}
		var asked []int64
		for _, req := range w.net.requests("a") {
			if len(req.Ranges) > 0 {
				asked = append(asked, req.Ranges[0].Start/group)
			}
		}
		if want := []int64{0, 3, 6, 9, 12, 15, 18, 21, 24, 27}; !slices.Equal(asked, want) {
			t.Errorf("went on at %v, want %v", asked, want)
		}
	})
}

func TestRetries(t *testing.T) {
	for _, tc := range []struct {
		outcome  status.Outcome
		requests int
	}{
		{status.Busy, 3}, {status.TransportDown, 3}, {status.Upstream, 3}, {status.Draining, 3},
		{status.NotFound, 1}, {status.Corrupt, 1}, {status.Timeout, 1}, {status.Denied, 1},
	} {
		t.Run(tc.outcome.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil)
				b := randomBlob(24, 10)
				w.net.peer("a", b).refuse = func(int) error { return status.Errorf(tc.outcome, "no") }
				w.has([]peer.ID{"a"}, b)
				begun := time.Now()
				if err := w.fetch(t, b); status.Of(err) != tc.outcome {
					t.Errorf("got %v", err)
				}
				if n := len(w.net.requests("a")); n != tc.requests {
					t.Errorf("asked %d times, want %d", n, tc.requests)
				}
				if d := time.Since(begun); tc.requests == 3 && (d < 150*time.Millisecond || d > 300*time.Millisecond) {
					t.Errorf("paused for %s, want U[50,100] and U[100,200] ms", d)
				}
			})
		})
	}
	t.Run("then it answers", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, nil)
			b := randomBlob(25, 10)
			w.net.peer("a", b).refuse = func(n int) error {
				if n < 2 {
					return status.Errorf(status.Busy, "no")
				}
				return nil
			}
			w.has([]peer.ID{"a"}, b)
			if err := w.fetch(t, b); err != nil {
				t.Fatal(err)
			}
		})
	})
}

// An error of the own store is nobody else's fault.
func TestStoreErrorEndsTheFetch(t *testing.T) {
	w := newWorld(t, nil)
	b := randomBlob(26, 3*group)
	w.net.peer("a", b)
	w.net.peer("b", b)
	w.has([]peer.ID{"a", "b"}, b)
	w.local.putErr = status.Errorf(status.NoSpace, "full")
	if err := w.fetch(t, b); status.Of(err) != status.NoSpace {
		t.Errorf("got %v", err)
	}
	if n := len(w.net.requests("")); n != 1 {
		t.Errorf("%d requests", n)
	}
}

func TestCallersComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		b := randomBlob(27, 10*group)
		p := w.net.peer("a", b)
		gate := make(chan struct{})
		stopped := make(chan struct{}, 1)
		p.before = func(ctx context.Context, g int64) error {
			if g != 5 {
				return nil
			}
			select {
			case <-gate:
				return nil
			case <-ctx.Done():
				stopped <- struct{}{}
				return ctx.Err()
			}
		}
		w.has([]peer.ID{"a"}, b)

		var wg sync.WaitGroup
		leave := make([]context.CancelFunc, 3)
		errs := make([]error, 3)
		start := func(i int) {
			ctx, cancel := context.WithCancel(t.Context())
			leave[i] = cancel
			wg.Go(func() { _, errs[i] = w.Fetch(ctx, b.root, FetchOptions{}) })
		}
		start(0)
		synctest.Wait()
		start(1)
		synctest.Wait()
		leave[0]() // who began it
		synctest.Wait()
		select {
		case <-stopped:
			t.Fatal("the fetch ended while a caller waited")
		default:
		}
		leave[1]()
		synctest.Wait()
		select {
		case <-stopped:
		default:
			t.Fatal("the fetch goes on though nobody waits")
		}
		wg.Wait()
		if !errors.Is(errs[0], context.Canceled) || !errors.Is(errs[1], context.Canceled) {
			t.Errorf("got %v, %v", errs[0], errs[1])
		}
		if w.local.has(b.root) {
			t.Error("it is whole")
		}
		// One who comes later goes on from there.
		start(2)
		synctest.Wait()
		close(gate)
		wg.Wait()
		if errs[2] != nil || !w.local.has(b.root) {
			t.Errorf("got %v", errs[2])
		}
		leave[2]()
		if n := len(w.net.requests("")); n != 2 {
			t.Errorf("%d requests", n)
		}
		if r := w.net.requests("")[1].Ranges[0]; r.Start != 5*group {
			t.Errorf("the second asks for %v", r)
		}
	})
}

func TestRunEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		b := randomBlob(28, 10*group)
		w.net.peer("a", b).before = func(ctx context.Context, g int64) error {
			if g < 2 {
				return nil
			}
			return stall(ctx)
		}
		w.has([]peer.ID{"a"}, b)
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := w.Fetch(t.Context(), b.root, FetchOptions{}); status.Of(err) != status.Draining {
				t.Errorf("Fetch: %v, want draining", err)
			}
		})
		c, err := w.Open(t.Context(), b.root, Whole(Sources{}))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		w.stop()
		if _, err := io.Copy(io.Discard, c); status.Of(err) != status.Draining {
			t.Errorf("read: %v, want draining", err)
		}
		c.Close()
		wg.Wait()
		if _, err := w.Open(t.Context(), b.root, Whole(Sources{})); status.Of(err) != status.Draining {
			t.Errorf("Open: %v, want draining", err)
		}
		if _, err := w.FetchTree(t.Context(), b.root, FetchOptions{}); status.Of(err) != status.Draining {
			t.Errorf("FetchTree: %v, want draining", err)
		}
	})
}

func TestNotStarted(t *testing.T) {
	local, net := newFakeLocal(), newFakeNet()
	r, err := New(DefaultConfig(), Deps{Local: local, Providers: &fakeFinder{}, Objects: net, Dialer: net})
	if err != nil {
		t.Fatal(err)
	}
	b := randomBlob(29, 10)
	if _, err := r.Fetch(t.Context(), b.root, FetchOptions{}); status.Of(err) != status.NotReady {
		t.Errorf("got %v", err)
	}
	local.add(b)
	if info, err := r.Fetch(t.Context(), b.root, FetchOptions{}); err != nil || info.Source != SourceLocal ||
		info.Size != 10 {
		t.Errorf("a local object: %+v, %v", info, err)
	}
}

func TestTooManyFetches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *Config, _ *Deps) { c.Fetches, c.FetchesWaiting = 2, 3 })
		var busy, fine int
		var mu sync.Mutex
		var wg sync.WaitGroup
		for i := range 9 {
			b := randomBlob(uint64(300+i), 100)
			w.net.peer(peer.ID(b.root.Hex()), b).latency = time.Second
			w.has([]peer.ID{peer.ID(b.root.Hex())}, b)
		}
		for root := range w.finder.who {
			wg.Go(func() {
				_, err := w.Fetch(t.Context(), root, FetchOptions{})
				mu.Lock()
				defer mu.Unlock()
				switch status.Of(err) {
				case status.OK:
					fine++
				case status.Busy:
					busy++
				default:
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if fine != 5 || busy != 4 {
			t.Errorf("%d went through, %d were refused; want 5 and 4", fine, busy)
		}
	})
}

func TestFetchProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		b := randomBlob(30, 10*group)
		w.net.peer("a", b).before = func(context.Context, int64) error {
			time.Sleep(80 * time.Millisecond) // virtual time
			return nil
		}
		w.has([]peer.ID{"a"}, b)
		var seen []Progress
		if _, err := w.Fetch(t.Context(), b.root, FetchOptions{Progress: func(p Progress) {
			seen = append(seen,
				p)
		}}); err != nil {
			t.Fatal(err)
		}
		if len(seen) < 5 || len(seen) > 10 {
			t.Errorf("%d reports of a fetch of 800 ms", len(seen))
		}
		if last := seen[len(seen)-1]; last != (Progress{Objects: 1, ObjectsKnown: 1, Bytes: 10 * group,
			BytesKnown: 10 * group, Peers: 1}) {
			t.Errorf("the last report is %+v", last)
		}
		if !slices.IsSortedFunc(seen, func(a, b Progress) int { return int(a.Bytes - b.Bytes) }) {
			t.Error("progress went back")
		}
	})
}

// Hints come before the DHT: named peers, then whoever served the parent.
func TestSourcesInOrder(t *testing.T) {
	w := newWorld(t, nil)
	parent, child, other := randomBlob(31, 100), randomBlob(32, 100), randomBlob(33, 100)
	w.net.peer("named", child)
	w.net.peer("dht", parent, other)
	w.has([]peer.ID{"dht"}, parent)
	if _, err := w.Fetch(t.Context(), child.root,
		FetchOptions{Sources: Sources{Peers: []peer.AddrInfo{{ID: "named"}}}}); err != nil {
		t.Fatal(err)
	}
	if w.finder.count() != 0 {
		t.Error("the DHT was asked though a named peer has it")
	}
	// Nobody announces other; its parent's providers have it.
	if _, err := w.Fetch(t.Context(), other.root, FetchOptions{Sources: Sources{Via: parent.root}}); err != nil {
		t.Fatal(err)
	}
	if w.finder.count() != 1 {
		t.Errorf("%d lookups, want one for the parent", w.finder.count())
	}
	if _, err := w.Fetch(t.Context(), parent.root, FetchOptions{}); err != nil {
		t.Fatal(err)
	}
	asked := w.finder.count() // once more for the parent, unless the first lookup came to its end
	more := randomBlob(34, 100)
	w.net.peers["dht"].objects[more.root] = more
	if _, err := w.Fetch(t.Context(), more.root, FetchOptions{Sources: Sources{Via: parent.root}}); err != nil {
		t.Fatal(err)
	}
	if w.finder.count() != asked {
		t.Error("the DHT was asked though the peer that served the parent has it")
	}
	if n := len(w.net.requests("self")); n != 0 {
		t.Error("it asked itself")
	}
}

// Property: whatever the providers do wrong, readers of a running fetch get the
// object's bytes, and the fetch ends with the object whole.
func TestReadsDuringFetch(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.IntRange(0, 24*group).Draw(rt, "size")
		b := randomBlob(rapid.Uint64().Draw(rt, "seed"), size)
		w := newWorld(t, func(c *Config, _ *Deps) { c.BreakerErrors = 0.99; c.BreakerMinCalls = 1000 })
		defer w.stop()
		ids := []peer.ID{"p", "q", "r", "honest"}
		for _, id := range ids[:3] {
			p := w.net.peer(id, b)
			bad, cutAt := rapid.Int64Range(-1, 24).Draw(rt, "bad"), rapid.Int64Range(-1, 24).Draw(rt, "cut")
			p.spoil = func(_ b3.Root, g int64) bool { return g == bad }
			p.before = func(_ context.Context, g int64) error {
				if g == cutAt {
					return status.Errorf(status.Timeout, "cut")
				}
				return nil
			}
		}
		w.net.peer("honest", b)
		w.has(ids, b)
		type want struct{ start, end int64 }
		var reads []want
		for range rapid.IntRange(1, 6).Draw(rt, "reads") {
			start := rapid.Int64Range(0, int64(size)).Draw(rt, "start")
			reads = append(reads, want{start, rapid.Int64Range(start, int64(size)).Draw(rt, "end")})
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := w.Fetch(context.Background(), b.root, FetchOptions{}); err != nil {
				rt.Errorf("fetch: %v", err)
			}
		})
		for _, r := range reads {
			wg.Go(func() {
				c, err := w.Open(context.Background(), b.root, OpenOptions{Start: r.start, End: r.end})
				if status.Of(err) == status.BadRange {
					if r.start < int64(size) {
						rt.Errorf("[%d, %d) of %d: %v", r.start, r.end, size, err)
					}
					return
				}
				if err != nil {
					rt.Errorf("open: %v", err)
					return
				}
				defer c.Close()
				got, err := io.ReadAll(c)
				if r.start == r.end && len(got) == 0 && err == nil {
					return
				}
				if err != nil || !bytes.Equal(got, b.data[r.start:r.end]) {
					rt.Errorf("[%d, %d) of %d: %d bytes, %v", r.start, r.end, size, len(got), err)
				}
			})
		}
		wg.Wait()
		if !w.local.has(b.root) {
			rt.Error("not whole at the end")
		}
	})
}

// Requests to one peer wait for each other, and waiting is not taken for the
// peer's silence.
func TestRequestsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		p := w.net.peer("a")
		p.latency = 4 * time.Second
		var wg sync.WaitGroup
		for i := range 32 {
			b := randomBlob(uint64(400+i), 100)
			p.objects[b.root] = b
			w.has([]peer.ID{"a"}, b)
		}
		for root := range w.finder.who {
			wg.Go(func() {
				if _, err := w.Fetch(t.Context(), root, FetchOptions{}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if w.net.peak != int(w.cfg.Load().PeerRequests) {
			t.Errorf("%d requests in flight to one peer, want %d", w.net.peak, w.cfg.Load().PeerRequests)
		}
	})
}

// A peer that opens its breaker in the middle of a fetch is blamed for what it
// did, not for the breaker.
func TestBreakerDoesNotHideTheCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *Config, _ *Deps) { c.BreakerMinCalls = 2 })
		b := randomBlob(500, 100)
		w.net.peer("a", b).refuse = func(int) error { return status.Errorf(status.TransportDown, "no route") }
		w.has([]peer.ID{"a"}, b)
		if err := w.fetch(t, b); status.Of(err) != status.TransportDown {
			t.Errorf("got %v", err)
		}
		if n := len(w.net.requests("a")); n != 2 {
			t.Errorf("%d requests", n)
		}
		if err := w.fetch(t, b); status.Of(err) != status.BreakerOpen {
			t.Errorf("got %v", err)
		}
	})
}

func TestRunsOnceAtATime(t *testing.T) {
	w := newWorld(t, nil)
	if err := w.Run(t.Context(), func() { t.Error("ready") }); err == nil {
		t.Error("it ran twice at once")
	}
	b := randomBlob(501, 100)
	w.net.peer("a", b)
	w.has([]peer.ID{"a"}, b)
	if err := w.fetch(t, b); err != nil {
		t.Errorf("the first run is disturbed: %v", err)
	}
	w.stop()
	ctx, cancel := context.WithCancel(t.Context())
	if err := w.Run(ctx, cancel); err != nil {
		t.Errorf("after the end of the first: %v", err)
	}
}

// A bug under one fetch is that fetch's error.
func TestPanicIsContained(t *testing.T) {
	w := newWorld(t, nil)
	all := append([]*blob{randomBlob(502, 2*group)}, flat(t, 9, 300, 10)...)
	w.net.peer("a", all...).spoil = func(b3.Root, int64) bool { panic("a bug") }
	w.has([]peer.ID{"a"}, all...)
	for range 2 * w.cfg.Load().PeerRequests { // no request's place is lost
		if err := w.fetch(t, all[0]); status.Of(err) != status.Internal {
			t.Fatalf("Fetch: %v", err)
		}
	}
	w.local.add(last(all))
	if _, err := w.FetchTree(t.Context(), last(all).root, FetchOptions{}); status.Of(err) != status.Internal {
		t.Errorf("FetchTree: %v", err)
	}
}
