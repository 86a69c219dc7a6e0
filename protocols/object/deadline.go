package object

import (
	"context"
	"time"

	"github.com/libp2p/go-libp2p/core/network"

	"allium/protocols/status"
)

// tooSlow is the error of a peer that fell behind its pace.
func tooSlow(op string, c *Config, patience time.Duration) error {
	return status.Errorf(status.Timeout, "object: %s: no byte for %s, or less than %s/s", op, patience, c.MinRate)
}

// resetWhenDone resets st when ctx ends before stop is called. stop waits for
// a reset that began and reports whether there was one.
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
