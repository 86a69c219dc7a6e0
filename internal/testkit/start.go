package testkit

import (
	"context"
	"sync"
	"testing"
)

// Start calls run, the Run method of a service, in a goroutine and returns once the
// service is ready. stop ends the service and waits for it; the end of the test does so
// too. An error of run fails the test. stop may be called more than once.
func Start(t testing.TB, run func(ctx context.Context, ready func()) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context())) // t.Context ends before cleanups begin
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
