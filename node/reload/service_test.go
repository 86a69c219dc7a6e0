package node

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"allium/protocols/status"
)

// TestReload: every file is read again, also after one failed, and one that
// hangs does not hold up the others for ever.
func TestReload(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReloaders()
		read := 0
		r.add(Reloader{"bad", func(context.Context) error {
			return status.Errorf(status.BadRequest, "line 7 is no address")
		}})
		r.add(Reloader{"hangs", func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }})
		r.add(Reloader{"good", func(context.Context) error { read++; return nil }})
		begun := time.Now()
		done, err := r.run(t.Context())
		if err != nil || len(done.Files) != 3 || read != 1 || time.Since(begun) != reloadDeadline {
			t.Fatalf("%+v, %v, read %d times in %s", done, err, read, time.Since(begun))
		}
		for i, want := range []status.Outcome{status.BadRequest, status.Timeout, status.OK} {
			f := done.Files[i]
			if (f.Error == nil) != (want == status.OK) || f.Error != nil && f.Error.Reason != want.String() {
				t.Errorf("%s: %+v, want %s", f.Name, f.Error, want)
			}
		}
		if err := done.Failed(); status.Of(err) != status.BadRequest {
			t.Errorf("%v", err)
		}
	})
}

// TestReloadsTakeTurns: one reload at a time; who waits may leave.
func TestReloadsTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReloaders()
		running, end := 0, make(chan struct{})
		r.add(Reloader{"slow", func(context.Context) error {
			if running++; running != 1 {
				t.Error("two at once")
			}
			<-end
			running--
			return nil
		}})
		results := make(chan error)
		for range 2 {
			go func() { _, err := r.run(t.Context()); results <- err }()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		synctest.Wait()
		if _, err := r.run(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		end <- struct{}{}
		end <- struct{}{}
		for range 2 {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
	})
}
