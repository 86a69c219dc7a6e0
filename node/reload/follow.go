package reload

import (
	"context"
	"time"

	"allium/internal/jitter"
)

// The back-off of reloads by signal after failures.
const (
	backoffMin = time.Second
	backoffMax = 30 * time.Second
)

// Follow calls reload for each trigger until ctx is done. triggers has a buffer of one, so all triggers during a reload
// cause one more reload. After a failure the next reload waits: a program that signals a bad configuration again and
// again does not keep the node busy.
func Follow[T any](ctx context.Context, triggers <-chan T, reload func(context.Context) error) {
	wait := time.Duration(0)
	for {
		select {
		case <-triggers:
		case <-ctx.Done():
			return
		}
		if reload(ctx) == nil {
			wait = 0
			continue
		}
		wait = min(max(2*wait, backoffMin), backoffMax)
		if !jitter.Sleep(ctx, jitter.Spread(wait)) {
			return
		}
	}
}
