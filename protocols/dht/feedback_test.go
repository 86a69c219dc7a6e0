package dht

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"allium/internal/limits"
	"allium/internal/testkit"
	"allium/protocols/delimited"
	"allium/protocols/status"
)

// tableLog is what the routing table hears.
type tableLog struct {
	mu           sync.Mutex
	seen, failed []peer.ID
	rtt          time.Duration
}

func (l *tableLog) Seen(_ context.Context, p peer.ID, rtt time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen, l.rtt = append(l.seen, p), rtt
}

func (l *tableLog) Failed(_ context.Context, p peer.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = append(l.failed, p)
}

// TestFeedback: an answer is told with its round trip, silence and a reset as a
// failure; a refusal is not a failure, and neither is a call that was given up.
func TestFeedback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := testkit.NewNetwork(testkit.Options{Latency: 10 * time.Millisecond})
		defer net.Close()
		var registry *limits.Registry
		handlers := map[peer.ID]func(network.Stream){
			"answers": func(s network.Stream) { _, _ = io.ReadAll(s); _ = delimited.Write(s, nil); _ = s.Close() },
			"silent":  func(s network.Stream) { time.Sleep(time.Minute); _ = s.Reset() },
			"resets":  func(s network.Stream) { _ = s.Reset() },
			"is full": func(s network.Stream) { _ = s.ResetWithError(network.StreamResourceLimitExceeded) },
			"limits":  func(s network.Stream) { _ = s.ResetWithError(network.StreamRateLimited) },
			"given up": func(s network.Stream) {
				time.Sleep(time.Minute)
				_ = s.Reset()
			},
		}
		for p, h := range handlers {
			net.Host(p).SetStreamHandler(KadID, h)
		}
		log := &tableLog{}
		c := &rpcClient{
			host: net.Host("me"), timeout: 1500 * time.Millisecond, table: log,
			connected: func(peer.ID) bool { return false }, dials: registry.NewGate(limits.Spec{Name: "d"}, 1, 1),
		}
		for _, tc := range []struct {
			p     peer.ID
			limit time.Duration
			want  status.Outcome
		}{
			{"answers", time.Hour, status.OK},
			{"silent", time.Hour, status.Timeout},
			{"resets", time.Hour, status.Upstream},
			{"is full", time.Hour, status.Busy},
			{"limits", time.Hour, status.RateLimit},
			{"given up", 100 * time.Millisecond, status.Timeout},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), tc.limit)
			_, _, err := c.call(ctx, tc.p, KadID, nil, 10)
			cancel()
			if status.Of(err) != tc.want {
				t.Errorf("%s: %v", tc.p, err)
			}
		}
		if !slices.Equal(log.seen, []peer.ID{"answers"}) || log.rtt != 20*time.Millisecond {
			t.Errorf("seen: %q after %s", log.seen, log.rtt)
		}
		if !slices.Equal(log.failed, []peer.ID{"silent", "resets"}) {
			t.Errorf("failed: %q", log.failed)
		}
		time.Sleep(time.Minute) // the handlers end
	})
}

// unclosable opens streams that the other side has reset by the time they are
// closed for writing, as the transports report it: without the code.
type unclosable struct{ streamOpener }

func (u unclosable) NewStream(ctx context.Context, p peer.ID, ids ...protocol.ID) (network.Stream, error) {
	s, err := u.streamOpener.NewStream(ctx, p, ids...)
	return unclosableStream{s}, err
}

type unclosableStream struct{ network.Stream }

func (unclosableStream) CloseWrite() error { return errors.New("close called for canceled stream") }

// TestRefusedWhileAsking: the reason of a peer that resets the stream while the
// question is still being finished gets through, and so does an answer.
func TestRefusedWhileAsking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := testkit.NewNetwork(testkit.Options{})
		defer net.Close()
		net.Host(
			"is full",
		).SetStreamHandler(
			KadID,
			func(s network.Stream) { _ = s.ResetWithError(network.StreamResourceLimitExceeded) },
		)
		net.Host("answers").SetStreamHandler(KadID,
			func(s network.Stream) { _ = delimited.Write(s, nil); _ = s.Close() })
		log := &tableLog{}
		c := &rpcClient{
			host: unclosable{net.Host("me")}, timeout: time.Second, table: log,
			connected: func(peer.ID) bool { return true },
		}
		if _, _, err := c.call(t.Context(), "is full", KadID, nil, 10); status.Of(err) != status.Busy {
			t.Errorf("a peer that is full: %v", err)
		}
		if _, _, err := c.call(t.Context(), "answers", KadID, nil, 10); err != nil {
			t.Errorf("a peer that answers: %v", err)
		}
		if len(log.failed) != 0 {
			t.Errorf("failed: %q", log.failed)
		}
	})
}

// TestDialsAreBounded: strangers wait for a place, peers that are connected do
// not.
func TestDialsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var registry *limits.Registry
		gate := registry.NewGate(limits.Spec{Name: "d"}, 1, 1)
		release, err := gate.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		net := testkit.NewNetwork(testkit.Options{})
		defer net.Close()
		for _, p := range []peer.ID{"friend", "stranger"} {
			net.Host(p).SetStreamHandler(KadID, func(s network.Stream) { _ = delimited.Write(s, nil); _ = s.Close() })
		}
		c := &rpcClient{
			host: net.Host("me"), timeout: time.Second, table: &tableLog{}, dials: gate,
			connected: func(p peer.ID) bool { return p == "friend" },
		}
		if _, _, err := c.call(t.Context(), "friend", KadID, nil, 10); err != nil {
			t.Error(err)
		}
		if _, _, err := c.call(t.Context(), "stranger", KadID, nil, 10); status.Of(err) != status.Timeout {
			t.Errorf("no place to dial: %v", err)
		}
		release()
		if _, _, err := c.call(t.Context(), "stranger", KadID, nil, 10); err != nil {
			t.Error(err)
		}
	})
}
