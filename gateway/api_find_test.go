package gateway

import (
	"reflect"
	"strings"
	"testing"

	"allium/gateway/api"
	"allium/protocols/status"
)

// TestTrace: the trace comes after the providers, whether there were any and
// however the lookup ended.
func TestTrace(t *testing.T) {
	t.Parallel()
	n := start(t)
	c := connectTo(t, n)
	for key, want := range map[string]struct {
		found int
		out   status.Outcome
	}{"x": {1, status.OK}, "nobody": {0, status.OK}, "fail": {0, status.Busy}} {
		var trace api.Trace
		found, err := collect(c.FindProviders(t.Context(), key, api.FindOptions{Trace: &trace}))
		if len(found) != want.found || status.Of(err) != want.out || !reflect.DeepEqual(trace, fakeTrace) {
			t.Errorf("%s: %v, %v, %+v", key, found, err, trace)
		}
	}
	answer := do(t, "GET", n.Addrs().Admin+"/api/v1/providers?key=x&trace=true")
	lines := strings.Split(answer.body, "\n")
	if len(lines) != 4 || !strings.HasPrefix(lines[0], `{"item":`) ||
		!strings.HasPrefix(lines[1], `{"trace":{"end":"hop_exceeded",`) || lines[2] != `{"ok":{}}` {
		t.Errorf("%s", answer.body)
	}
}
