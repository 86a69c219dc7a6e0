package local

import (
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/sec"

	"allium/node/p2p/reach"
	"allium/protocols/status"
)

func TestDialErrors(t *testing.T) {
	t.Parallel()
	expired := fmt.Errorf("certificate verification failed: %w",
		x509.CertificateInvalidError{Reason: x509.Expired, Detail: "not yet valid"})
	for _, tc := range []struct {
		err        error
		dial, shut string
	}{
		{errors.New("connection refused"), "check that it runs", "connection refused"},
		{sec.ErrPeerIDMismatch{Expected: "a", Actual: "b"}, "check the id", "peer id mismatch"},
		{fmt.Errorf("all dials failed: %w", expired), "set the clocks", "set the clocks"},
		{
			errors.New("all dials failed\n  * [/ip4/127.0.0.1/tcp/1] failed to negotiate security protocol: EOF"),
			"swarm-key show", "EOF",
		},
		{errors.New("CRYPTO_ERROR 0x12a (remote): tls: bad certificate"), "set the clocks", "set the clocks"},
		{
			&network.ConnError{Remote: true, ErrorCode: network.ConnResourceLimitExceeded},
			"check that it runs", "at its limit",
		},
	} {
		for name, got := range map[string]error{tc.dial: reach.DialError("p",
			tc.err), tc.shut: closedError("p", tc.err)} {
			if status.Of(got) != status.TransportDown || !strings.Contains(got.Error(), name) {
				t.Errorf("%v: %v, want %q", tc.err, got, name)
			}
		}
	}
	if err := closedError("p", nil); !strings.Contains(err.Error(), "did not say why") {
		t.Error(err)
	}
}
