package server

import (
	"net"
	"net/netip"
	"testing"

	"allium/protocols/status"
)

func TestBaseURL(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]string{
		"127.0.0.1:1": "http://127.0.0.1:1", "[::1]:1": "http://[::1]:1", "192.0.2.1:1": "http://192.0.2.1:1",
		"0.0.0.0:1": "http://127.0.0.1:1", "[::]:1": "http://127.0.0.1:1",
	} {
		if got := baseURL(net.TCPAddrFromAddrPort(netip.MustParseAddrPort(addr))); got != want {
			t.Errorf("%s: %s, want %s", addr, got, want)
		}
	}
}

// TestListenOutcome: a supervisor tries again when the outcome says that a retry helps. It does where the
// machine does not have the address yet, as at boot; it does not where a right is missing.
func TestListenOutcome(t *testing.T) {
	t.Parallel()
	used, err := listenTCP(t.Context(), "127.0.0.1:0", "gateway.listen")
	if err != nil {
		t.Fatal(err)
	}
	defer used.Close()
	for addr, want := range map[string]status.Outcome{
		used.Addr().String(): status.Conflict,
		"192.0.2.1:0":        status.TransportDown, // of an example, no machine's
	} {
		l, err := listenTCP(t.Context(), addr, "gateway.listen")
		if err == nil {
			l.Close()
		}
		if status.Of(err) != want {
			t.Errorf("listen on %s: %v, want %s", addr, err, want)
		}
	}
}
