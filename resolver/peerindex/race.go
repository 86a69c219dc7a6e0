package peerindex

import (
	"context"
	"sync"
	"time"
)

// source is one of the places that a search asks. It passes on what it finds to emit, until emit
// returns false, and returns when ctx ends.
type source[T any] func(ctx context.Context, emit func(T) bool) error

// result is something that a source found, or the end of the source.
type result[T any] struct {
	source int
	found  T
	err    error
	ended  bool
}

// race starts sources in their order: each when nothing was found for hedge, or when all that run
// have ended. atOnce starts all. take gets what they find, and returns false when that is enough.
// race returns nil after take has ended it, else the error of the last source that failed, or ctx's.
// All sources have ended when it returns.
func race[T any](ctx context.Context, hedge time.Duration, atOnce bool, sources []source[T], take func(T) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	results := make(chan result[T]) // the race reads until it returns, and then ctx has ended
	send := func(r result[T]) bool {
		select {
		case results <- r:
			return true
		case <-ctx.Done():
			return false
		}
	}
	started, ended := 0, 0
	start := func() {
		i := started
		started++
		running.Go(func() {
			err := sources[i](ctx, func(found T) bool { return send(result[T]{source: i, found: found}) })
			send(result[T]{source: i, err: err, ended: true})
		})
	}
	start()
	for atOnce && started < len(sources) {
		start()
	}
	late := time.NewTimer(hedge)
	defer late.Stop()
	var last error
	found := false
	for ended < len(sources) {
		if ended == started && !found {
			start()
			late.Reset(hedge)
		}
		select {
		case r := <-results:
			switch {
			case !r.ended:
				found = true
				late.Reset(hedge) // the caller may have enough soon
				if !take(r.found) {
					return nil
				}
				continue
			case r.err != nil:
				last = r.err
			}
			ended++
		case <-late.C:
			if started < len(sources) {
				start()
				late.Reset(hedge)
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return last
}
