package object

import (
	"context"
	"time"

	"github.com/libp2p/go-libp2p/core/network"

	"allium/protocols/status"
)

// tooSlow returns the error of a peer that is slower than MinRate or made no progress
// for the timeout.
func tooSlow(op string, c *Config, timeout time.Duration) error {
	return status.Errorf(status.Timeout, "%s: no byte for %s, or less than %s/s", op, timeout, c.MinRate)
}

// resetWhenDone resets st if ctx ends before the caller calls stop. stop waits for a
// reset in progress and reports whether there was a reset.
func resetWhenDone(ctx context.Context, st network.Stream, code network.StreamErrorCode) (stop func() bool) {
	done := make(chan struct{})
	cancel := context.AfterFunc(ctx, func() {
		defer close(done)
		_ = st.ResetWithError(code)
	})
	return func() bool {
		if cancel() {
			return false
		}
		<-done
		return true
	}
}
