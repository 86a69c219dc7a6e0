package resolver

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/status"
)

// observed are the events of a resolver.
type observed struct {
	mu     sync.Mutex
	events []TransferEvent
}

func (o *observed) observe(e TransferEvent) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events = append(o.events, e)
}

// take returns the events since the last call.
func (o *observed) take() []TransferEvent {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := o.events
	o.events = nil
	return all
}

// pair fails the test unless the events are the begin and the end of one fetch, and
// returns the end.
func pair(t *testing.T, events []TransferEvent) TransferEvent {
	t.Helper()
	if len(events) != 2 {
		t.Fatalf("got %+v", events)
	}
	begin, end := events[0], events[1]
	if begin.Ended || !end.Ended || begin.Root != end.Root || begin.Tree != end.Tree ||
		begin.LookupID != end.LookupID ||
		begin.LookupID == 0 || begin.Bytes != 0 {
		t.Errorf("got %+v", events)
	}
	return end
}

// TestObserve: each fetch from peers is reported once when it begins and once when it
// ends, however many callers share it; what is local is no fetch.
func TestObserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o observed
		w := newWorld(t, func(_ *Config, d *Deps) { d.Observe = o.observe })
		b, left, nowhere := randomBlob(90, 3*group+5), randomBlob(91, 30*group), randomBlob(92, group)
		p := w.net.peer("a", b, left)
		p.latency = 20 * time.Millisecond
		w.has([]peer.ID{"a"}, b, left)

		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { _ = w.fetch(t, b) })
		}
		wg.Wait()
		synctest.Wait()
		end := pair(t, o.take())
		if end.Root != b.root || end.Outcome != status.OK || end.Bytes != int64(len(b.data)) || end.Tree ||
			end.Took < 20*time.Millisecond {
			t.Errorf("a fetch: %+v", end)
		}

		if err := w.fetch(t, b); err != nil {
			t.Error(err)
		}
		if events := o.take(); events != nil {
			t.Errorf("a local object: %+v", events)
		}

		if err := w.fetch(t, nowhere); status.Of(err) != status.NotFound {
			t.Errorf("an object of nobody: %v", err)
		}
		synctest.Wait()
		if end := pair(t, o.take()); end.Outcome != status.NotFound || end.Bytes != 0 {
			t.Errorf("an object of nobody: %+v", end)
		}

		p.before = func(ctx context.Context, g int64) error {
			if g == 4 {
				return stall(ctx)
			}
			return nil
		}
		ctx, leave := context.WithCancel(t.Context())
		wg.Go(func() { _, _ = w.Fetch(ctx, left.root, FetchOptions{}) })
		synctest.Wait()
		time.Sleep(25 * time.Millisecond)
		leave()
		wg.Wait()
		time.Sleep(2 * linger)
		synctest.Wait()
		// Groups 0 to 3 came, and the last one as the proof of the size.
		if end := pair(t, o.take()); end.Outcome != status.Canceled || end.Bytes != 5*group {
			t.Errorf("a fetch that its caller left: %+v", end)
		}
	})
}

// TestObserveTree: a directory is one fetch, whatever its small objects are asked for
// by.
func TestObserveTree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o observed
		w := newWorld(t, func(_ *Config, d *Deps) { d.Observe = o.observe })
		all := flat(t, 1, 50, 100)
		root := last(all)
		w.net.peer("a", all...)
		w.has([]peer.ID{"a"}, root)
		info, err := w.FetchTree(t.Context(), root.root, FetchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		end := pair(t, o.take())
		if !end.Tree || end.Root != root.root || end.LookupID != info.LookupID || end.Outcome != status.OK ||
			end.Bytes != size(all) || end.Took != info.Duration {
			t.Errorf("a directory: %+v", end)
		}
	})
}
