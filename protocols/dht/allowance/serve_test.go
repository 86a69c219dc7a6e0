package allowance

import (
	"bufio"
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/multiformats/go-varint"

	"allium/internal/testkit"
)

// testHost gives a testkit.Host to who wants a host.Host: the guard uses
// SetStreamHandler alone.
type testHost struct {
	host.Host
	h *testkit.Host
}

func (h testHost) SetStreamHandler(id protocol.ID, f network.StreamHandler) {
	h.h.SetStreamHandler(id, f)
}

// served is a guard with a handler behind it and a network to ask it over.
type served struct {
	*tested
	net  *testkit.Network
	stop func() error // of the guard; idempotent
}

// serveTested starts a guard in a synctest bubble.
func serveTested(t *testing.T, o testkit.Options, change func(*Config), handle network.StreamHandler) *served {
	t.Helper()
	s := &served{tested: newTested(t, change), net: testkit.NewNetwork(o)}
	s.Host(testHost{h: s.net.Host("server")}, "/kad", maxMessage).SetStreamHandler("/kad", handle)
	s.start(t)
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Error(err)
		}
		s.net.Close()
		s.wantFree(t)
	})
	return s
}

func (s *served) start(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background()) // outlives t.Context, which ends before the cleanup
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- s.Run(ctx, func() { close(ready) }) }()
	<-ready
	s.stop = sync.OnceValue(func() error { cancel(); return <-done })
}

// open returns a stream of that peer.
func (s *served) open(t *testing.T, from peer.ID) network.Stream {
	t.Helper()
	raw, err := s.net.Host(from).NewStream(t.Context(), "server", "/kad")
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// readFrame reads as kad-dht does: the length a byte at a time, then the rest.
func readFrame(s network.Stream) ([]byte, error) {
	n, err := varint.ReadUvarint(bufio.NewReaderSize(oneByte{s}, 16))
	if err != nil {
		return nil, err
	}
	msg := make([]byte, n)
	_, err = io.ReadFull(s, msg)
	return msg, err
}

// oneByte reads a byte at a time, so that a buffer over it holds nothing back.
type oneByte struct{ r io.Reader }

func (o oneByte) Read(p []byte) (int, error) { return o.r.Read(p[:1]) }

// echo answers every message with itself, and ends a stream as kad-dht does.
func echo(s network.Stream) { echoAfter(0)(s) }

func echoAfter(d time.Duration) network.StreamHandler {
	return func(s network.Stream) {
		for {
			msg, err := readFrame(s)
			if errors.Is(err, io.EOF) {
				_ = s.Close()
				return
			}
			if err == nil {
				time.Sleep(d)
				_, err = s.Write(frame(msg))
			}
			if err != nil {
				_ = s.Reset()
				return
			}
		}
	}
}
