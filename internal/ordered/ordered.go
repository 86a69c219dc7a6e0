// Package ordered does work on several goroutines, and yields its results in order.
package ordered

import (
	"context"
	"errors"
	"sync"
)

// Do does the work that produce submits, at most workers (≥ 1) at once, and yields the results in the order of the
// submissions. produce runs on a separate goroutine and must return when submit fails. Do returns the error of produce,
// or [ErrStopped] when yield returns false. It returns after all its goroutines.
func Do[R any](
	ctx context.Context, workers int,
	produce func(ctx context.Context, submit func(work func() R) error) error,
	yield func(R) bool,
) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	order := make(chan chan R, workers-1) // bound: workers, with the result that the loop waits for
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
			return ErrStopped
		}
	}
	return failed
}

// ErrStopped says that the consumer wanted no more.
var ErrStopped = errors.New("the consumer stopped")
