package testnet

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"allium/protocols/status"
	"allium/testnet/script"
)

// TestUntilSaysWhy: a step ends with the failure that says why, whatever the last try before the
// deadline met: a node that was given too little time, or a breaker that opened.
func TestUntilSaysWhy(t *testing.T) {
	for _, last := range []status.Outcome{status.Timeout, status.BreakerOpen} {
		synctest.Test(t, func(t *testing.T) {
			step, tries := script.Step{Within: 2 * time.Second}, 0
			_, err := new(Player).until(t.Context(), step, func(context.Context) (Said, error) {
				if tries++; tries == 1 {
					return nil, status.Errorf(status.Corrupt, "a lie")
				}
				return nil, status.Errorf(last, "no answer")
			})
			if status.Of(err) != status.Corrupt || tries < 3 {
				t.Errorf("%s: %d tries end with %v, want %s", last, tries, err, status.Corrupt)
			}
		})
	}
}
