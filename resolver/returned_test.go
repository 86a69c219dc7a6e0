package resolver

import (
	"context"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/patience"
	"allium/protocols/status"
	"allium/resolver/providers"
)

// failing returns a world in which the only provider of the returned blobs fails with an outcome while *down, and in
// which its breaker is open.
func failing(t *testing.T, o status.Outcome, down *bool) (*world, []*blob) {
	w := newWorld(t, nil)
	p := w.net.peer("a")
	p.refuse = func(int) error {
		if *down {
			return status.Errorf(o, "fake: it fails")
		}
		return nil
	}
	var blobs []*blob
	for i := range 4 {
		b := randomBlob(uint64(400+i), 10*group)
		p.objects[b.root] = b
		w.has([]peer.ID{"a"}, b)
		blobs = append(blobs, b)
	}
	for range 5 {
		if _, err := w.Fetch(t.Context(), blobs[0].root, FetchOptions{}); err == nil {
			t.Fatal("it was fetched")
		}
	}
	if w.Traits("a").Breaker != providers.BreakerOpen {
		t.Fatal("its breaker is not open")
	}
	return w, blobs
}

// TestReachedClosesBreaker connects a peer whose breaker is open. If it could not be reached, it is asked at once. If
// it answered with failures, it stays shut out.
func TestReachedClosesBreaker(t *testing.T) {
	for o, want := range map[status.Outcome]status.Outcome{
		status.TransportDown: status.OK, status.Upstream: status.BreakerOpen, status.Corrupt: status.BreakerOpen,
	} {
		synctest.Test(t, func(t *testing.T) {
			down := true
			w, blobs := failing(t, o, &down)
			down = false
			if _, err := w.Fetch(t.Context(), blobs[1].root, FetchOptions{}); status.Of(err) != status.BreakerOpen {
				t.Errorf("%s, not connected: %v", o, err)
			}
			w.Reached("a")
			w.Reached("stranger")
			if _, err := w.Fetch(t.Context(), blobs[2].root, FetchOptions{}); status.Of(err) != want {
				t.Errorf("%s, connected: %v, want %s", o, err, want)
			}
		})
	}
}

// TestReachedEndsAWait lets a reader wait for its only source, which is unreachable and whose breaker is open. When it
// connects, the reader goes on at once; without a connection to this node it is found by a probe after the next pause.
func TestReachedEndsAWait(t *testing.T) {
	for _, connects := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var down atomic.Bool
			w := newWorld(t, nil)
			p := w.net.peer("a")
			b, other := randomBlob(410, 40*group), randomBlob(411, group)
			p.objects[b.root], p.objects[other.root] = b, other
			w.has([]peer.ID{"a"}, b, other)
			refused := func() error {
				if down.Load() {
					return status.Errorf(status.TransportDown, "fake: connection refused")
				}
				return nil
			}
			p.refuse = func(int) error { return refused() }
			p.before = func(ctx context.Context, _ int64) error {
				if err := every(time.Millisecond)(ctx, 0); err != nil {
					return err
				}
				return refused()
			}
			c, err := w.Open(patience.With(t.Context()), b.root, Whole(Sources{}))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			down.Store(true)
			ended := make(chan time.Time, 1) // bound: 1, the end of the read
			go func() {
				if n, err := io.Copy(io.Discard, c); err != nil || n != int64(len(b.data)) {
					t.Errorf("%d bytes, %v", n, err)
				}
				ended <- time.Now()
			}()
			for range 28 { // others ask it too, so that its breaker stays open
				_, _ = w.Fetch(t.Context(), other.root, FetchOptions{})
				time.Sleep(time.Second)
			}
			if w.Traits("a").Breaker != providers.BreakerOpen {
				t.Error("its breaker is not open")
			}
			down.Store(false)
			back := time.Now()
			most := 6*time.Second + time.Second // the longest pause, and the read
			if connects {
				w.Reached("a")
				most = time.Second
			}
			if took := (<-ended).Sub(back); took > most {
				t.Errorf("connected %t: the read ended after %s", connects, took)
			}
		})
	}
}
