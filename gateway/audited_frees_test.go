package gateway

import (
	"net/http/httptest"
	"testing"

	"allium/gateway/exchange"
	"allium/protocols/capability"
)

// TestFrees: what gives space back, or ends the node, is recorded on a full disk
// too.
func TestFrees(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		op     capability.Op
		method string
		want   bool
	}{
		{capability.Unpin, "POST", true}, {capability.GC, "POST", true}, {
			capability.Drain, "POST", true,
		}, {capability.Put, "DELETE", true},
		{capability.Put, "POST", false}, {capability.Put, "PUT", false}, {capability.Pin, "POST", false}, {
			capability.Fetch, "POST", false,
		},
	} {
		if got := exchange.FreesSpace(test.op, httptest.NewRequestWithContext(t.Context(), test.method, "/",
			nil)); got != test.want {
			t.Errorf("%s %s: %t", test.method, test.op, got)
		}
	}
}
