package sent

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
)

func root(i int) b3.Root { return b3.Sum([]byte(fmt.Sprint(i))) }

func all(size int64) []b3.Range { return []b3.Range{{Start: 0, End: size}} }

// watching runs a watch of objects. told returns who was told of since the last call; asked counts questions.
func watching(
	t *testing.T, objects map[b3.Root]int64, have map[peer.ID]bool,
) (l *Log, told func() []peer.ID, asked *int) {
	t.Helper()
	l, asked = &Log{}, new(int)
	w, err := l.Watch(objects)
	if err != nil {
		t.Fatal(err)
	}
	var all []peer.ID
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Run(ctx, func(_ context.Context, p peer.ID, _ []b3.Root) bool { *asked++; return have[p] },
			func(p Peer) { all = append(all, p.ID) })
	}()
	t.Cleanup(func() { cancel(); <-done })
	return l, func() []peer.ID {
		synctest.Wait()
		got := all
		all = nil
		return got
	}, asked
}

func TestAPeerThatWasSentAllIsToldOfOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const size = 1000
		l, told, _ := watching(t, map[b3.Root]int64{root(1): size, root(2): 10, root(3): 0}, nil)
		l.Sent(Peer{ID: "bob"}, root(1), size, []b3.Range{{Start: 0, End: 400}})
		l.Sent(Peer{ID: "bob"}, root(1), size, []b3.Range{{Start: 700, End: size}})
		l.Sent(Peer{ID: "bob"}, root(2), 10, all(10))
		l.Sent(Peer{ID: "bob"}, root(9), 10, all(10)) // not shared
		l.Sent(Peer{ID: "eve"}, root(1), size, []b3.Range{{Start: 0, End: 699}, {Start: 700, End: size}})
		if got := told(); len(got) > 0 {
			t.Errorf("told of %v before they had it", got)
		}
		l.Sent(Peer{ID: "bob"}, root(1), size, []b3.Range{{Start: 300, End: 700}})
		if got := told(); !slices.Equal(got, []peer.ID{"bob"}) {
			t.Errorf("told of %v, want bob", got)
		}
		l.Sent(Peer{ID: "bob"}, root(1), size, all(size))
		l.Sent(Peer{ID: "eve"}, root(1), size, all(size))
		if got := told(); len(got) > 0 {
			t.Errorf("told of %v again, or of eve, who lacks one", got)
		}
	})
}

func TestAPeerThatHadAPartIsAsked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		have := map[peer.ID]bool{}
		l, told, asked := watching(t, map[b3.Root]int64{root(1): 100}, have)
		l.Sent(Peer{ID: "bob"}, root(1), 100, []b3.Range{{Start: 50, End: 60}})
		if got := told(); len(got) > 0 || *asked != 1 {
			t.Errorf("told of %v after %d questions", got, *asked)
		}
		have["bob"] = true
		l.Sent(Peer{ID: "bob"}, root(1), 100, []b3.Range{{Start: 60, End: 100}})
		if got := told(); !slices.Equal(got, []peer.ID{"bob"}) || *asked != 2 {
			t.Errorf("told of %v after %d questions", got, *asked)
		}
		l.Sent(Peer{ID: "bob"}, root(1), 100, []b3.Range{{Start: 60, End: 100}})
		if got := told(); len(got) > 0 || *asked != 2 {
			t.Errorf("told of %v again after %d questions", got, *asked)
		}
	})
}

// TestAPeerIsAskedAgain: a peer that resumed has all of it only some time after it was sent the last bytes. One that
// never has it is asked a bounded number of times.
func TestAPeerIsAskedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		have := map[peer.ID]bool{}
		l, told, asked := watching(t, map[b3.Root]int64{root(1): 100}, have)
		l.Sent(Peer{ID: "bob"}, root(1), 100, []b3.Range{{Start: 50, End: 100}})
		if got := told(); len(got) > 0 {
			t.Errorf("told of %v, who lacks a part", got)
		}
		time.Sleep(time.Second)
		have["bob"] = true
		time.Sleep(2 * time.Second)
		if got := told(); !slices.Equal(got, []peer.ID{"bob"}) {
			t.Errorf("told of %v, want bob", got)
		}
		*asked = 0
		l.Sent(Peer{ID: "eve"}, root(1), 100, []b3.Range{{Start: 0, End: 10}})
		time.Sleep(time.Hour)
		if got := told(); len(got) > 0 || *asked < 3 || *asked > maxAsks {
			t.Errorf("told of %v after %d questions", got, *asked)
		}
	})
}

func TestAnEmptyFileIsWholeAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, told, _ := watching(t, map[b3.Root]int64{root(1): 0}, nil)
		l.Sent(Peer{ID: "bob"}, root(1), 0, []b3.Range{{Start: 0, End: 0}})
		if got := told(); !slices.Equal(got, []peer.ID{"bob"}) {
			t.Errorf("told of %v, want bob", got)
		}
	})
}

func TestWhatIsRememberedIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		objects := map[b3.Root]int64{}
		for i := range 1000 {
			objects[root(i)] = 1 << 30
		}
		l, told, _ := watching(t, objects, nil)
		for i := range 1000 {
			l.Sent(Peer{ID: "eve"}, root(i), 1<<30, []b3.Range{{Start: 10, End: 20}, {Start: 30, End: 40}})
			l.Sent(Peer{ID: peer.ID(fmt.Sprint(i))}, root(1), 1<<30, all(1<<30))
		}
		for range 3 {
			l.Sent(Peer{ID: "mallory"}, root(0), 1<<30, []b3.Range{{Start: 5, End: 4}, {Start: 1 << 40, End: 1}})
		}
		told()
		w := l.watch.Load()
		if n := w.peers.Len(); n > maxPeers {
			t.Errorf("%d peers are remembered, want at most %d", n, maxPeers)
		}
		for _, p := range w.peers.Keys() {
			if g, _ := w.peers.Peek(p); len(g.partial) > maxRanges {
				t.Errorf("%d objects of %s have ranges", len(g.partial), p)
			}
		}
	})
}

// TestOfATreeOfTooManyObjectsNobodyIsTold: nothing is known of it.
func TestOfATreeOfTooManyObjectsNobodyIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, told, asked := watching(t, nil, map[peer.ID]bool{"bob": true})
		l.Sent(Peer{ID: "bob"}, root(7), 10, all(10))
		if got := told(); len(got) > 0 || *asked > 0 {
			t.Errorf("told of %v after %d questions", got, *asked)
		}
	})
}
