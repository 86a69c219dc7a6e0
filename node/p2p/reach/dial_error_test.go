package reach_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/sec"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	ma "github.com/multiformats/go-multiaddr"

	"allium/node/p2p/reach"
	"allium/protocols/status"
)

// TestDialErrorWords: what a person reads names the cause, and of a wrong id both ids.
func TestDialErrorWords(t *testing.T) {
	const want, other = "12D3KooWDxzNkPjaS71tdWdPn8dXdzXJ5CMZV6nZVfUcjhBB1zQ6",
		"12D3KooWA5geUFjtNendjSP4BWTMNHMHPUGr3q7bqSASZafV9hX7"
	id, err := peer.Decode(want)
	if err != nil {
		t.Fatal(err)
	}
	answers, err := peer.Decode(other)
	if err != nil {
		t.Fatal(err)
	}
	mismatch := sec.ErrPeerIDMismatch{Expected: id, Actual: answers}
	at := ma.StringCast("/ip4/127.0.0.1/tcp/4901")
	failed := func(cause error) error {
		return &swarm.DialError{Peer: id, DialErrors: []swarm.TransportError{{Address: at, Cause: cause}}}
	}
	refused := &os.SyscallError{Syscall: "connect", Err: syscall.ECONNREFUSED}
	for _, c := range []struct {
		err   error
		words string
	}{
		{mismatch, want + " is not at that address: " + other + " answers there; check the id after /p2p/"},
		{fmt.Errorf("failed to negotiate security protocol: %w", mismatch), other + " answers there"},
		{errors.New("CRYPTO_ERROR 0x12a (local): " + mismatch.Error()), other + " answers there"},
		{failed(refused), "/ip4/127.0.0.1/tcp/4901: connection refused"},
		{failed(context.DeadlineExceeded), "/ip4/127.0.0.1/tcp/4901: no answer"},
	} {
		got := reach.DialError(id, c.err)
		if !strings.Contains(got.Error(), c.words) || status.Of(got) != status.TransportDown ||
			strings.Contains(got.Error(), "\n") {
			t.Errorf("%v: %q, want %q", c.err, got, c.words)
		}
	}
}
