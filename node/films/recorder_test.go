package films

import (
	"bytes"
	"context"
	"errors"
	"io"
	"runtime/trace"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"allium/internal/env"
	"allium/internal/testkit"
	"allium/protocols/status"
)

// TestRecorder: a film is what go tool trace reads, the next within a minute is refused, and the latest four
// are kept. The tests are not parallel: a process has one flight recorder.
func TestRecorder(t *testing.T) {
	r := New(env.Env{})
	ctx, stop := context.WithCancel(t.Context())
	ended, ready := make(chan error), make(chan struct{})
	go func() { ended <- r.Run(ctx, func() { close(ready) }) }()
	<-ready
	if trace.IsEnabled() {
		t.Error("the tracer of an idle node runs")
	}
	r.Arm()
	testkit.Eventually(t, "the tracer runs", trace.IsEnabled)
	var asked []status.LookupID
	for i := range MaxFilms + 2 {
		id := status.LookupID(i + 1)
		asked = append(asked, id)
		r.latest.Store(0) // a minute passes
		r.Freeze(id)
		testkit.Eventually(t, "a film is kept", func() bool { return r.Film(id) != nil })
		r.Freeze(99)
	}
	for i, id := range asked {
		film := r.Film(id)
		if there := film != nil; there != (i >= 2) || there != r.Filmed(id) {
			t.Errorf("film %d is there: %v", i, there)
		} else if there && !bytes.HasPrefix(film, []byte("go 1.")) {
			t.Errorf("film %d begins with %q", i, film[:8])
		}
	}
	if r.Film(99) != nil || testutil.ToFloat64(r.counts.WithLabelValues(string(tooSoon))) != MaxFilms+2 {
		t.Error("two films within a minute")
	}
	raw := 0
	for _, id := range asked {
		raw += len(r.Film(id))
	}
	if n := int(r.size()); n == 0 || n > raw/2 {
		t.Errorf("the films have %d bytes in memory, of %d", n, raw)
	}

	// Another node of the process keeps none, and says so.
	other := New(env.Env{})
	go func() { ended <- other.Run(ctx, func() {}) }()
	other.Arm()
	other.Freeze(1)
	testkit.Eventually(t, "it says so", func() bool {
		return testutil.ToFloat64(other.counts.WithLabelValues(string(failed))) == 1
	})
	stop()
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if trace.IsEnabled() {
		t.Error("the tracer still runs")
	}
}

// TestTooLarge: a film of more than 8 MiB is refused.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	_, err := compress(func(w io.Writer) error {
		piece := make([]byte, maxBytes/2)
		for i := range 3 {
			if _, err := w.Write(piece); (err != nil) != (i == 2) {
				t.Errorf("part %d: %v", i, err)
			} else if err != nil {
				return err
			}
		}
		return nil
	})
	if !errors.Is(err, errTooLarge) {
		t.Errorf("compressed: %v", err)
	}
}
