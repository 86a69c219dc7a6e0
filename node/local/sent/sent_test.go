package sent

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
)

func root(i int) b3.Root { return b3.Sum([]byte(fmt.Sprint(i))) }

func all(size int64) []b3.Range { return []b3.Range{{Start: 0, End: size}} }

// asker answers what a watch asks of peers. The zero asker says that none has it.
type asker struct {
	mu    sync.Mutex
	have  map[peer.ID]bool
	asked int
}

func (a *asker) ask(p peer.ID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked++
	return a.have[p]
}

// has says that p has it from now on.
func (a *asker) has(p peer.ID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.have = map[peer.ID]bool{p: true}
}

// count returns how often it was asked since reset.
func (a *asker) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked
}

func (a *asker) reset() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = 0
}

// watching runs a watch of objects. told returns who was told of since the last call.
func watching(t *testing.T, objects map[b3.Root]int64, peers *asker) (l *Log, told func() []peer.ID) {
	t.Helper()
	l = &Log{}
	w, err := l.Watch(objects)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var all []peer.ID
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Run(ctx, func(_ context.Context, p peer.ID, _ []b3.Root) bool { return peers.ask(p) }, func(p Peer) {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, p.ID)
		})
	}()
	t.Cleanup(func() { cancel(); <-done })
	return l, func() []peer.ID {
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		got := all
		all = nil
		return got
	}
}

func TestAPeerThatWasSentAllIsToldOfOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const size = 1000
		l, told := watching(t, map[b3.Root]int64{root(1): size, root(2): 10, root(3): 0}, &asker{})
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
		peers := &asker{}
		l, told := watching(t, map[b3.Root]int64{root(1): 100}, peers)
		l.Sent(Peer{ID: "bob"}, root(1), 100, []b3.Range{{Start: 50, End: 60}})
		if got := told(); len(got) > 0 || peers.count() != 1 {
			t.Errorf("told of %v after %d questions", got, peers.count())
		}
		peers.has("bob")
		l.Sent(Peer{ID: "bob"}, root(1), 100, []b3.Range{{Start: 60, End: 100}})
		if got := told(); !slices.Equal(got, []peer.ID{"bob"}) || peers.count() != 2 {
			t.Errorf("told of %v after %d questions", got, peers.count())
		}
		l.Sent(Peer{ID: "bob"}, root(1), 100, []b3.Range{{Start: 60, End: 100}})
		if got := told(); len(got) > 0 || peers.count() != 2 {
			t.Errorf("told of %v again after %d questions", got, peers.count())
		}
	})
}

// TestAPeerIsAskedAgain: a peer that resumed has all of it only some time after it was sent the last bytes. One that
// never has it is asked a bounded number of times.
func TestAPeerIsAskedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		peers := &asker{}
		l, told := watching(t, map[b3.Root]int64{root(1): 100}, peers)
		l.Sent(Peer{ID: "bob"}, root(1), 100, []b3.Range{{Start: 50, End: 100}})
		if got := told(); len(got) > 0 {
			t.Errorf("told of %v, who lacks a part", got)
		}
		time.Sleep(time.Second)
		peers.has("bob")
		time.Sleep(2 * time.Second)
		if got := told(); !slices.Equal(got, []peer.ID{"bob"}) {
			t.Errorf("told of %v, want bob", got)
		}
		peers.reset()
		l.Sent(Peer{ID: "eve"}, root(1), 100, []b3.Range{{Start: 0, End: 10}})
		time.Sleep(time.Hour)
		if got := told(); len(got) > 0 || peers.count() < 3 || peers.count() > maxAsks {
			t.Errorf("told of %v after %d questions", got, peers.count())
		}
	})
}

func TestAnEmptyFileIsWholeAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, told := watching(t, map[b3.Root]int64{root(1): 0}, &asker{})
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
		l, told := watching(t, objects, &asker{})
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
		peers := &asker{have: map[peer.ID]bool{"bob": true}}
		l, told := watching(t, nil, peers)
		l.Sent(Peer{ID: "bob"}, root(7), 10, all(10))
		if got := told(); len(got) > 0 || peers.count() > 0 {
			t.Errorf("told of %v after %d questions", got, peers.count())
		}
	})
}
