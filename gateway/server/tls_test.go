package server

import (
	"testing"
)

// TestHostPort: the port that https has anyway is left out, and an IPv6 address is
// in brackets.
func TestHostPort(t *testing.T) {
	t.Parallel()
	if p := hostPort("node.test", 443) + hostPort("::1", 443) + hostPort("::1", 1); p != "node.test[::1][::1]:1" {
		t.Error(p)
	}
}
