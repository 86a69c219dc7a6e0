package testkit

import (
	"context"
	"sync"
	"testing"
)

// Start calls run, the Run of a service, and returns when that is ready. Stop
// ends it and waits for its end, which is an error of the test if it is one; the
// end of the test stops it too.
func Start(t testing.TB, run func(ctx context.Context, ready func()) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context())) // that of the test ends before its cleanups begin
	ready := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := run(ctx, func() { close(ready) }); err != nil {
			t.Error(err)
		}
	})
	<-ready
	stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(stop)
	return stop
}
