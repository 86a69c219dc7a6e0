package resolver

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

// unreachable makes a peer fail as a dial of a dead machine does: after 4 s.
func unreachable(ctx context.Context) error {
	select {
	case <-time.After(4 * time.Second):
		return status.Errorf(status.TransportDown, "fake: no answer")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// levels is a directory of directories, so that one request cannot ask for all of it: all its objects, the root last.
func levels(t testing.TB, depth int) []*blob {
	below := flat(t, 77, 300, 100)
	all := slices.Clone(below)
	for i := range depth {
		b := randomBlob(uint64(7800+i), 200)
		large := randomBlob(uint64(7900+i), maxBatched+1)
		above := dir(t, file("f", b), file("large", large), manifest.Entry{
			Name: "below", Kind: manifest.Directory, Root: last(below).root, Size: int64(len(last(below).data)),
		})
		all, below = append(append(all, b, large), above...), above
	}
	return all
}

// TestTreeBesideADeadAnnouncer: the peer that announced a directory is dead, as is one that the caller names, and
// others hold the objects, each some of them. The fetch takes at most a second more than without the dead ones.
func TestTreeBesideADeadAnnouncer(t *testing.T) {
	all := levels(t, 5)
	took := func(dead bool) (d time.Duration, w *world) {
		synctest.Test(t, func(t *testing.T) {
			var book *hintBook
			w, book = hinted(t)
			const rtt = 20 * time.Millisecond
			var even, odd []*blob
			for i, b := range all {
				if i%2 == 0 {
					even = append(even, b)
				} else {
					odd = append(odd, b)
				}
			}
			w.net.peer("even", append(even, last(all))...).latency = rtt
			w.net.peer("odd", odd...).latency = rtt
			w.finder.delay = rtt
			w.has([]peer.ID{"odd"}, odd...)
			w.has([]peer.ID{"even"}, append(even, last(all))...)
			o := FetchOptions{}
			if dead {
				for _, id := range []peer.ID{"announcer", "named"} {
					w.net.peer(id, all...).fails = unreachable
				}
				for _, b := range all {
					book.tell(b.root, "announcer")
				}
				o.Peers = []peer.AddrInfo{{ID: "named"}}
			}
			begun := time.Now()
			if _, err := w.FetchTree(t.Context(), last(all).root, o); err != nil {
				t.Fatal(err)
			}
			d = time.Since(begun)
			if n := w.missing(all); n > 0 {
				t.Errorf("%d objects are missing", n)
			}
		})
		return d, w
	}
	alone, _ := took(false)
	beside, w := took(true)
	t.Logf("%s without dead peers, %s beside two", alone, beside)
	if beside > alone+time.Second {
		t.Errorf("it takes %s beside dead peers, and %s without", beside, alone)
	}
	small := 0
	for _, req := range w.net.requests("announcer") {
		if len(req.Ranges) == 0 {
			small++
		}
	}
	if small > 3 {
		t.Errorf("the dead announcer was asked %d times for small objects", small)
	}
}

// TestTreeSourceStallsInTheMiddle: a source that stops in the middle of a batch is joined by another, which is asked
// for the rest alone.
func TestTreeSourceStallsInTheMiddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := flat(t, 78, 200, 100)
		w := newWorld(t, nil)
		left := 100
		w.net.peer("a", all...).before = func(ctx context.Context, _ int64) error {
			if left--; left < 0 {
				return stall(ctx)
			}
			return nil
		}
		w.net.peer("b", all...)
		w.has([]peer.ID{"a", "b"}, last(all))
		begun := time.Now()
		if _, err := w.FetchTree(t.Context(), last(all).root, FetchOptions{}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took > time.Second {
			t.Errorf("it takes %s", took)
		}
		asked := map[b3.Root]int{}
		for _, req := range w.net.requests("b") {
			for _, root := range req.Objs {
				asked[root]++
			}
		}
		if len(asked) == 0 || len(asked) > 110 {
			t.Errorf("b was asked for %d objects, a had sent 100 of 201", len(asked))
		}
	})
}

// TestHedgeWhileTheStoreIsSlow: what a source has sent is stored although another source was faster, so that a slow
// store fails no fetch.
func TestHedgeWhileTheStoreIsSlow(t *testing.T) {
	for _, takes := range []time.Duration{30 * time.Millisecond, 2 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			all := flat(t, 79, 20, 100)
			w := newWorld(t, nil)
			w.local.takes = takes
			w.net.peer("a", all...).latency = 170 * time.Millisecond
			w.net.peer("b", all...).latency = 20 * time.Millisecond
			w.has([]peer.ID{"a", "b"}, last(all))
			if _, err := w.FetchTree(t.Context(), last(all).root, FetchOptions{}); err != nil {
				t.Errorf("with puts of %s: %v", takes, err)
			}
		})
	}
}
