package p2p

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/pnet"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"allium/internal/env"
	"allium/internal/testkit"
)

// lines collects a log, of which several goroutines write.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) count(words string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), words)
}

// TestOtherKeyIsLogged: a node of a private network says once a minute that others do not have its key,
// and counts each.
func TestOtherKeyIsLogged(t *testing.T) {
	psk := make(pnet.PSK, 32)
	psk[0] = 1
	var log lines
	logged := env.Env{Log: slog.New(slog.NewTextHandler(&log, nil))}
	b, err := New(testnetConfig(t), Deps{Env: logged, Key: newKey(t), PSK: psk})
	if err != nil {
		t.Fatal(err)
	}
	h, err := b.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Wait()
	defer h.Close()
	stranger := build(t, testnetConfig(t), Deps{})
	if stranger.Connect(timeout(t), peer.AddrInfo{ID: h.ID(), Addrs: h.Addrs()}) == nil {
		t.Fatal("connected without the key")
	}
	failed := func() float64 { return testutil.ToFloat64(b.shares.failures.counter) }
	testkit.Eventually(t, "a line about the key", func() bool { return log.count("another key") == 1 })
	b.shares.failures.failed(nil)
	if n := log.count("another key"); n != 1 {
		t.Errorf("%d lines about the key within a minute: %s", n, log.b.String())
	}
	friend := build(t, testnetConfig(t), Deps{PSK: psk})
	before := failed()
	if err := friend.Connect(timeout(t), peer.AddrInfo{ID: h.ID(), Addrs: h.Addrs()}); err != nil {
		t.Fatal(err)
	}
	if before != 2 || failed() != before {
		t.Errorf("%v failed handshakes and then %v: two failed, and a node with the key does not", before, failed())
	}
}
