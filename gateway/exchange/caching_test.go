package exchange

import (
	"net/http"
	"testing"
	"time"
)

// TestMaxStale reads the directive of clients; what cannot be read allows nothing.
func TestMaxStale(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		lines []string
		want  time.Duration
	}{
		{nil, 0},
		{[]string{""}, 0},
		{[]string{"no-cache"}, 0},
		{[]string{"max-stale=60"}, time.Minute},
		{[]string{`no-transform, MAX-STALE="60"`}, time.Minute},
		{[]string{"only-if-cached", "max-stale=1"}, time.Second},
		{[]string{"max-stale"}, maxStaleness},
		{[]string{"max-stale=2147483647"}, maxStaleness},
		{[]string{"max-stale=0"}, 0},
		{[]string{"max-stale=-1"}, 0},
		{[]string{"max-stale=1h"}, 0},
		{[]string{"max-stale=99999999999999999999"}, 0},
	} {
		if got := MaxStale(&http.Request{Header: http.Header{"Cache-Control": c.lines}}); got != c.want {
			t.Errorf("%q: %s, want %s", c.lines, got, c.want)
		}
	}
}
