package server

import (
	"net"
	"net/netip"
	"testing"
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
