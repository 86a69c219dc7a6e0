package env

import (
	"testing"
	"time"
)

// TestEvery: a node that saves power looks ten times less often.
func TestEvery(t *testing.T) {
	t.Parallel()
	usual, saving := Env{}, Env{LowPower: true}
	if got := usual.Every(time.Second); got != time.Second {
		t.Errorf("an interval of %s in place of a second", got)
	}
	if got := saving.Every(time.Second); got != 10*time.Second {
		t.Errorf("with low power an interval of %s in place of ten seconds", got)
	}
}
