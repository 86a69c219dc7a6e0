package node_test

import (
	"bytes"
	rt "runtime/trace"
	"testing"
	"time"

	"allium/internal/testkit"
	"allium/node"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/resolver/trace"
)

// TestFilm: of a lookup far slower than others of its class, `why` has what Go's tracer saw, with its ID. The test is
// not parallel: a process has one flight recorder.
func TestFilm(t *testing.T) {
	n := start(t, nil)
	ring := node.Lookups(n.Node)
	key := trace.Key{Root: b3.Sum([]byte("slow"))}
	usual := ring.Hit(trace.Open, key, trace.Store, time.Millisecond)
	for range 200 {
		ring.Hit(trace.Open, key, trace.Store, time.Millisecond)
	}
	testkit.Eventually(t, "the tracer runs", rt.IsEnabled)
	slow := ring.Hit(trace.Open, key, trace.Store, time.Second)
	testkit.Eventually(t, "a film is kept", func() bool {
		w, err := n.api.Why(t.Context(), slow.String())
		return err == nil && w.Film
	})
	film, err := n.api.Film(t.Context(), slow.String())
	if err != nil || film.ID != slow.String() || !bytes.HasPrefix(film.Trace, []byte("go 1.")) ||
		!bytes.Contains(film.Trace, []byte(slow.String())) {
		t.Errorf("a film of %d bytes, %v", len(film.Trace), err)
	}
	for id, want := range map[string]status.Outcome{usual.String(): status.NotFound, "x": status.BadRequest} {
		if _, err := n.api.Film(t.Context(), id); status.Of(err) != want {
			t.Errorf("the film of %s: %v", id, err)
		}
	}
}
