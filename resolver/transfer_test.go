package resolver

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// Three providers of different pace do as much as they can each, and end at
// about the same time.
func TestProvidersShareTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		b := randomBlob(600, 1200*group)
		paces := map[peer.ID]time.Duration{"a": time.Millisecond, "b": 2 * time.Millisecond, "c": 4 * time.Millisecond}
		var ids []peer.ID
		for id, pace := range paces {
			p := w.net.peer(id, b)
			p.before, p.latency = paced(pace), 5*time.Millisecond
			ids = append(ids, id)
		}
		w.has(ids, b)
		begun := time.Now()
		if err := w.fetch(t, b); err != nil {
			t.Fatal(err)
		}
		took := time.Since(begun)
		ideal := 1200 * time.Second / (1000 + 500 + 250)
		if took > ideal*5/4 {
			t.Errorf("took %s, the three together need %s", took, ideal)
		}
		for id, pace := range paces {
			did, can := w.net.peers[id].served.Load(), int64(took/pace)
			if did < can*6/10 {
				t.Errorf("%s served %d groups in %s, it can do %d", id, did, took, can)
			}
			if n := w.net.peaks[id]; n > usualSpans {
				t.Errorf("%d requests in flight to %s", n, id)
			}
		}
		if extra := w.counter(t, "resolver_received_bytes_total", "extra"); extra > allDoubled+1200*group/doubledPart {
			t.Errorf("%v bytes came twice", extra)
		}
	})
}

// The one provider stalls in the middle of what a reader waits for: 30 ms after
// the next group should have come another is asked as well, and when it has
// delivered, the late request is ended.
func TestLateRequestIsDoubled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *Config, _ *Deps) { c.ProvidersPerObject = 2 })
		b := randomBlob(602, 600*group)
		const rtt, pace = 10 * time.Millisecond, time.Millisecond
		var stalled, ended time.Time
		for _, id := range []peer.ID{"a", "b"} {
			p := w.net.peer(id, b)
			slow := paced(pace)
			p.latency = rtt
			p.before = func(ctx context.Context, g int64) error {
				if id == "a" && g >= 100 && stalled.IsZero() {
					stalled = time.Now()
					err := stall(ctx)
					ended = time.Now()
					return err
				}
				return slow(ctx, g)
			}
		}
		w.has([]peer.ID{"a", "b"}, b)
		c, err := w.Open(t.Context(), b.root, Whole(Sources{}))
		if err != nil {
			t.Fatal(err)
		}
		var longest time.Duration
		last := time.Now()
		var got bytes.Buffer
		buf := make([]byte, group)
		for {
			n, err := c.Read(buf)
			got.Write(buf[:n])
			longest = max(longest, time.Since(last))
			last = time.Now()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		c.Close()
		if !bytes.Equal(got.Bytes(), b.data) {
			t.Error("other bytes")
		}
		if stalled.IsZero() {
			t.Fatal("nothing stalled")
		}
		// The last sign of life, one rtt and one group, 30 ms, and the other's rtt.
		if most := 2*rtt + 3*pace + lateAfter + 20*time.Millisecond; longest > most {
			t.Errorf("the reader waited for %s, want at most %s", longest, most)
		}
		if d := ended.Sub(stalled); d <= 0 || d > 500*time.Millisecond {
			t.Errorf("the late request ended %s after it stalled", d)
		}
		if n := w.counter(t, "resolver_hedges_total", "won"); n < 1 {
			t.Errorf("%v hedges won", n)
		}
	})
}

// A peer of which nothing is known and that does not answer costs Config.HedgeAfter once. From then
// on another is asked first.
func TestSilentPeer(t *testing.T) {
	for _, after := range []time.Duration{DefaultConfig().HedgeAfter, 40 * time.Millisecond, time.Second} {
		t.Run(after.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, func(c *Config, _ *Deps) { c.HedgeAfter = after })
				var all []*blob
				for i := range 6 {
					all = append(all, randomBlob(uint64(610+i), 100+i*3*group))
				}
				w.net.peer("silent", all...).latency = time.Hour
				w.net.peer("good", all...).latency = time.Millisecond
				w.has([]peer.ID{"silent", "good"}, all...)
				for i, b := range all {
					begun := time.Now()
					if err := w.fetch(t, b); err != nil {
						t.Fatal(err)
					}
					want := time.Millisecond
					if i == 0 {
						want += after
					}
					if d := time.Since(begun); d < want || d > want+10*time.Millisecond {
						t.Errorf("object %d took %s, want %s", i, d, want)
					}
				}
				if n := len(w.net.requests("silent")); n != 1 {
					t.Errorf("the silent peer was asked %d times", n)
				}
			})
		})
	}
}

// How long a request waits for this node's own rate does not count as the silence of its peer; a
// peer that is silent afterwards is given up after the usual time.
func TestOwnRateIsNoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		b := randomBlob(620, 40*group)
		p := w.net.peer("limited", b)
		p.rate = time.Minute
		w.has([]peer.ID{"limited"}, b)
		if err := w.fetch(t, b); err != nil {
			t.Error(err)
		}
		other := randomBlob(621, 40*group)
		silent := w.net.peer("silent", other)
		silent.rate, silent.silent = time.Minute, func() bool { return true }
		w.has([]peer.ID{"silent"}, other)
		begun := time.Now()
		if err := w.fetch(t, other); status.Of(err) != status.Timeout {
			t.Errorf("got %v", err)
		}
		stall := w.cfg.Load().providers().StallTimeout
		if d := time.Since(begun); d < time.Minute+stall || d > time.Minute+2*stall {
			t.Errorf("gave up after %s", d)
		}
	})
}

// One of three lies: it is not asked again for this object, and what the others
// sent is enough.
func TestLiarIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		b := randomBlob(620, 500*group)
		ids := []peer.ID{"a", "liar", "c"}
		for _, id := range ids {
			w.net.peer(id, b).before = paced(time.Millisecond)
		}
		var lied time.Time
		w.net.peers["liar"].spoil = func(_ b3.Root, g int64) bool {
			if lied.IsZero() {
				lied = time.Now()
			}
			return true
		}
		w.has(ids, b)
		if err := w.fetch(t, b); err != nil {
			t.Fatal(err)
		}
		if n := len(w.net.requests("liar")); n > usualSpans {
			t.Errorf("%d requests to the liar", n)
		}
		if n := w.counter(t, "resolver_provider_failures_total", "corrupt"); lied.IsZero() || n < 1 {
			t.Errorf("%v lies were found", n)
		}
	})
}

// A provider that dies costs its share of the pace and nothing else.
func TestProviderDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		b := randomBlob(621, 600*group)
		ids := []peer.ID{"a", "b", "c"}
		begun := time.Now()
		dead := func() error {
			if time.Since(begun) > 100*time.Millisecond {
				return status.Errorf(status.TransportDown, "dead")
			}
			return nil
		}
		for _, id := range ids {
			p := w.net.peer(id, b)
			slow := paced(time.Millisecond)
			p.before = slow
			if id == "b" {
				p.refuse = func(int) error { return dead() }
				p.before = func(ctx context.Context, g int64) error {
					if err := dead(); err != nil {
						return err
					}
					return slow(ctx, g)
				}
			}
		}
		w.has(ids, b)
		if err := w.fetch(t, b); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took > 400*time.Millisecond {
			t.Errorf("took %s, two providers need 300 ms", took)
		}
		if n := w.net.peers["b"].served.Load(); n == 0 || n > 110 {
			t.Errorf("the one that died served %d groups", n)
		}
		w.noneTwice(t)
	})
}

// noneTwice checks that nothing came that was here.
func (w *world) noneTwice(t testing.TB) {
	t.Helper()
	if n := w.counter(t, "resolver_received_bytes_total", "extra"); n > 0 {
		t.Errorf("%v bytes came twice", n)
	}
}

// Somebody who joins a fetch brings a provider along.
func TestProviderJoinsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		b := randomBlob(622, 600*group)
		w.net.peer("slow", b).before = paced(10 * time.Millisecond)
		w.net.peer("fast", b).before = paced(time.Millisecond)
		w.has([]peer.ID{"slow"}, b)
		begun := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := w.fetch(t, b); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(500 * time.Millisecond)
		if _, err := w.Fetch(t.Context(), b.root,
			FetchOptions{Sources: Sources{Peers: []peer.AddrInfo{{ID: "fast"}}}}); err != nil {
			t.Error(err)
		}
		wg.Wait()
		if took := time.Since(begun); took > 1300*time.Millisecond {
			t.Errorf("took %s", took)
		}
		if n := w.net.peers["fast"].served.Load(); n < 400 {
			t.Errorf("the fast one served %d groups", n)
		}
	})
}

// What an earlier fetch left is not asked for again.
func TestResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		b := randomBlob(630, 100*group+5)
		w.local.keep(t, b, 0, 40)
		w.net.peer("a", b)
		w.has([]peer.ID{"a"}, b)
		var first Progress
		info, err := w.Fetch(t.Context(), b.root, FetchOptions{Progress: func(p Progress) {
			if first.Bytes == 0 {
				first = p
			}
		}})
		if err != nil || !w.local.has(b.root) {
			t.Fatal(err)
		}
		if want := int64(40*group + 5); info.Resumed != want || first.Resumed != want {
			t.Errorf("resumed at %d, %d, want %d", info.Resumed, first.Resumed, want)
		}
		for g, n := range w.times(b, "") {
			if g < 40 || g >= 100 || n != 1 {
				t.Errorf("group %d was asked for", g)
			}
		}
		for _, req := range w.net.requests("") {
			if req.SizeProof {
				t.Error("the size was proved again")
			}
		}

		// In a tree as well.
		large := randomBlob(631, maxBatched+20*group)
		nodes := dir(t, file("large", large))
		w.local.keep(t, large, 3, 10)
		w.net.peer("b", append(nodes, large)...)
		w.has([]peer.ID{"b"}, last(nodes))
		tree, err := w.FetchTree(t.Context(), last(nodes).root, FetchOptions{})
		if held := int64(8 * group); err != nil || tree.Resumed != held || tree.FetchedBytes != tree.Bytes-held {
			t.Errorf("%+v, %v", tree, err)
		}
	})
}

// A fetch that is cancelled, or ends with the node, leaves what it has, and a
// fetch from nobody still reads it.
func TestCutFetchIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		b := randomBlob(632, 100*group)
		p := w.net.peer("a", b)
		p.before = every(10 * time.Millisecond)
		w.has([]peer.ID{"a"}, b)
		ctx, cancel := context.WithTimeout(t.Context(), 305*time.Millisecond)
		defer cancel()
		if _, err := w.Fetch(ctx, b.root, FetchOptions{}); status.Of(err) != status.Timeout {
			t.Fatal(err)
		}
		time.Sleep(2 * linger)
		if held, _ := w.local.held(b); held < 30*group {
			t.Fatalf("%d bytes are kept", held)
		}
		p.refuse = func(int) error { return status.Errorf(status.TransportDown, "gone") }
		c, err := w.Open(t.Context(), b.root, OpenOptions{Start: 100, End: 20 * group})
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(readAll(t, c), b.data[100:20*group]) {
			t.Error("other bytes")
		}
		if err := w.fetch(t, b); status.Of(err) != status.TransportDown {
			t.Errorf("got %v", err)
		}
		p.refuse = nil
		time.Sleep(10 * time.Second) // the breaker's cool-down
		if err := w.fetch(t, b); err != nil {
			t.Error(err)
		}
		if n := p.served.Load(); n > 100 {
			t.Errorf("%d groups were served of an object of 100", n)
		}
	})
}

// A slow reader pulls no more than its window; a fetch beside it knows no window.
func TestWindow(t *testing.T) {
	synctest.Test(t, testWindow)
}

func testWindow(t *testing.T) {
	const ahead = 200
	w := newWorld(t, nil)
	b := randomBlob(640, 900*group)
	for _, id := range []peer.ID{"a", "b"} {
		w.net.peer(id, b).before = paced(100 * time.Microsecond)
	}
	w.has([]peer.ID{"a", "b"}, b)
	o := Whole(Sources{})
	o.Ahead = ahead * group
	c, err := w.Open(t.Context(), b.root, o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	buf := make([]byte, group)
	for _, groups := range []int{1, 50, 300} {
		for range groups {
			if _, err := io.ReadFull(c, buf); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		asked := int64(w.asked(b, ""))
		if pos := c.off / group; asked > pos+ahead || asked < pos+ahead-ahead/8-1 {
			t.Errorf("%d groups were asked for, the reader is at %d", asked, pos)
		}
	}
	if err := w.fetch(t, b); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(c)
	if err != nil || !bytes.Equal(rest, b.data[351*group:]) {
		t.Errorf("%d bytes, %v", len(rest), err)
	}
	w.onlyOnce(t, b)
}

// A reader that waits for its own reader holds no place among the fetches.
func TestSlowReadersDoNotBlockFetches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *Config, _ *Deps) { c.Fetches = 1 })
		b, other := randomBlob(641, (readAhead+100)*group), randomBlob(642, 100)
		w.net.peer("a", b, other)
		w.has([]peer.ID{"a"}, b, other)
		c, err := w.Open(t.Context(), b.root, Whole(Sources{}))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if err := w.fetch(t, other); err != nil {
			t.Error(err)
		}
		if !bytes.Equal(readAll(t, c), b.data) {
			t.Error("other bytes")
		}
	})
}

// Providers that each have a part are enough when the parts are.
func TestPartialProviders(t *testing.T) {
	const groups = 300
	parts := map[peer.ID]func(g int64) bool{
		"even": func(g int64) bool { return g/50%2 == 0 },
		"odd":  func(g int64) bool { return g/50%2 == 1 && g != 77 },
		"end":  func(g int64) bool { return g > 290 || g == 77 },
	}
	for _, tc := range []struct {
		who   []peer.ID
		whole bool
		want  status.Outcome
	}{
		{[]peer.ID{"even", "odd", "end"}, true, status.OK},
		{[]peer.ID{"even", "end"}, true, status.NotFound},
		{[]peer.ID{"even", "end"}, false, status.OK},
		{[]peer.ID{"even"}, false, status.NotFound}, // nobody proves the size
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, nil)
			b := randomBlob(650, groups*group)
			for _, id := range tc.who {
				w.net.peer(id, b).part = parts[id]
			}
			w.has(tc.who, b)
			if tc.whole {
				if err := w.fetch(t, b); status.Of(err) != tc.want {
					t.Errorf("%v: %v, want %s", tc.who, err, tc.want)
				}
				return
			}
			c, err := w.Open(t.Context(), b.root, OpenOptions{Start: 110 * group, End: 140 * group})
			if status.Of(err) != tc.want {
				t.Errorf("%v: %v, want %s", tc.who, err, tc.want)
			}
			if err == nil && !bytes.Equal(readAll(t, c), b.data[110*group:140*group]) {
				t.Error("other bytes")
			}
		})
	}
}

// What one reader cannot have does not stop another.
func TestOneWantFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		b := randomBlob(651, 100*group)
		p := w.net.peer("a", b)
		p.part = func(g int64) bool { return g < 50 || g > 90 }
		p.before = every(10 * time.Millisecond)
		w.has([]peer.ID{"a"}, b)
		c, err := w.Open(t.Context(), b.root, OpenOptions{Start: 0, End: 50 * group})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Open(t.Context(), b.root, OpenOptions{Start: 60 * group,
			End: 61 * group}); status.Of(err) != status.NotFound {
			t.Errorf("got %v", err)
		}
		if !bytes.Equal(readAll(t, c), b.data[:50*group]) {
			t.Error("other bytes")
		}
	})
}

// A reader that leaves takes its requests with it; the next one finds the
// transfer open.
func TestUnwantedRequestsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		b := randomBlob(652, 1000*group)
		w.net.peer("a", b).before = every(time.Millisecond)
		w.has([]peer.ID{"a"}, b)
		for _, at := range []int64{0, 300, 600, 900} {
			c, err := w.Open(t.Context(), b.root, OpenOptions{Start: at * group, End: 1000 * group})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(c, make([]byte, group)); err != nil {
				t.Fatal(err)
			}
			c.Close()
			time.Sleep(20 * time.Millisecond)
		}
		if n := w.net.peers["a"].served.Load(); n > 50 {
			t.Errorf("%d groups were served to those who read one each", n)
		}
		if _, kept := w.local.held(b); w.finder.count() != 1 || kept != 0 {
			t.Errorf("%d lookups, %d ends", w.finder.count(), kept)
		}
	})
}
