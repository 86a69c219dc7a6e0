package localapi

import (
	"context"
	"errors"
	"sync"
)

// inOrder runs what produce submits, up to workers of it at once, and yields the
// results in the order in which they were submitted. produce runs beside it and
// ends when submit fails. The error is that of produce, or errStopped when yield
// has seen enough. It returns when everything that it started has.
func inOrder[R any](ctx context.Context, workers int, produce func(ctx context.Context, submit func(work func() R) error) error, yield func(R) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	order := make(chan chan R, workers-1) // bound: workers, with the one that is waited for
	var failed error
	wg.Go(func() {
		defer close(order)
		failed = produce(ctx, func(work func() R) error {
			done := make(chan R, 1)
			select {
			case order <- done:
			case <-ctx.Done():
				return ctx.Err()
			}
			wg.Go(func() { done <- work() })
			return nil
		})
	})
	for done := range order {
		if !yield(<-done) {
			return errStopped
		}
	}
	return failed
}

// errStopped ends what a consumer has seen enough of.
var errStopped = errors.New("localapi: the consumer stopped")
