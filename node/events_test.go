package node_test

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"allium/gateway/api"
	"allium/gateway/api/client"
	"allium/internal/testkit"
	"allium/protocols/status"
)

// watched are the events of a node and the error that ended them.
type watched struct {
	mu  sync.Mutex
	all []api.Event
	end error
}

// watch reads all events of a node from now on, until it stops.
func watch(t *testing.T, n *running) *watched {
	t.Helper()
	w := &watched{}
	var reading sync.WaitGroup
	reading.Go(func() {
		for e, err := range n.api.Events(t.Context(), client.EventOptions{}) {
			w.mu.Lock()
			if err != nil {
				w.end = err
			} else {
				w.all = append(w.all, e)
			}
			w.mu.Unlock()
		}
	})
	t.Cleanup(func() {
		if err := n.stop(); err != nil {
			t.Error(err)
		}
		reading.Wait()
	})
	testkit.Eventually(t, "the subscription", func() bool {
		l, err := n.api.Limits(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(l.Limits,
			func(l api.Limit) bool { return l.Name == "events.readers" && l.Current == 1 })
	})
	return w
}

// await waits for an event of a kind that is as is says.
func (w *watched) await(t *testing.T, topic api.Topic, kind api.EventKind, is func(api.Event) bool) {
	t.Helper()
	testkit.Eventually(t, string(kind)+" of "+string(topic), func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return slices.ContainsFunc(w.all, func(e api.Event) bool { return e.Topic == topic && e.Kind == kind && is(e) })
	})
}

// TestEvents: a reader is told of pins, connections, fetches and gates of a running node,
// and why its stream ends.
func TestEvents(t *testing.T) {
	noLeaks(t)
	seed := start(t, nil)
	a := start(t, joining(seed))
	w := watch(t, a)
	b := start(t, joining(seed)) // after the subscription, as it may connect to a by itself
	id := b.ID()

	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("of both"), 0o600); err != nil {
		t.Fatal(err)
	}
	root := add(t, b, file)[0].Root
	if _, err := a.api.Connect(t.Context(), id.Addrs[0]); err != nil {
		t.Fatal(err)
	}
	ofB := func(e api.Event) bool { return e.Peer.ID == id.ID && e.Peer.Addr != "" && e.Peer.Direction != "" }
	w.await(t, api.TopicPeers, api.EventConnected, ofB)

	awaitProvider(t, a, root.String())
	if _, err := a.api.Fetch(t.Context(), root.String(), nil); err != nil {
		t.Fatal(err)
	}
	w.await(t, api.TopicTransfers, api.EventBegun, func(e api.Event) bool { return e.Transfer.Root == root })
	w.await(t, api.TopicTransfers, api.EventEnded, func(e api.Event) bool {
		return e.Transfer.Root == root && e.Transfer.Outcome == "ok" &&
			e.Transfer.Bytes == 7 && e.Transfer.LookupID != ""
	})

	if _, err := a.api.Pin(t.Context(), root.String(), api.PinOptions{Label: "mine", Recursive: true}); err != nil {
		t.Fatal(err)
	}
	if err := a.api.Unpin(t.Context(), root.String(), ""); err != nil {
		t.Fatal(err)
	}
	w.await(t, api.TopicPins, api.EventAdded, func(e api.Event) bool {
		return *e.Pin == (api.PinEvent{Root: root, Label: "mine", Recursive: true})
	})
	w.await(t, api.TopicPins, api.EventRemoved, func(e api.Event) bool {
		return *e.Pin == (api.PinEvent{Root: root, Label: "mine"})
	})

	if err := b.stop(); err != nil {
		t.Error(err)
	}
	w.await(t, api.TopicPeers, api.EventDisconnected, ofB)
	// The gates are looked at once a second.
	w.await(t, api.TopicReadiness, api.EventOpened, func(e api.Event) bool { return e.Gate.Name == "bootstrap" })
	if err := seed.stop(); err != nil {
		t.Error(err)
	}
	w.await(t, api.TopicReadiness, api.EventShut, func(e api.Event) bool {
		return e.Gate.Name == "bootstrap" && !e.Gate.Ready && e.Gate.Fix != ""
	})

	if err := a.stop(); err != nil {
		t.Error(err)
	}
	testkit.Eventually(t, "the end of the stream", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return status.Of(w.end) == status.Draining
	})
}
