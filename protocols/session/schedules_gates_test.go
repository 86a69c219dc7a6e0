package session_test

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"allium/internal/testkit"
	"allium/protocols/oap"
)

// gates hold goroutines at named points until the test lets them on.
type gates struct {
	mu     sync.Mutex
	closed bool // else nobody is held
	held   map[string]chan struct{}
	wrong  error
}

func (g *gates) wait(name string) {
	g.mu.Lock()
	if !g.closed {
		g.mu.Unlock()
		return
	}
	if g.held[name] != nil {
		g.wrong = fmt.Errorf("two at once: %s", name)
	}
	on := make(chan struct{})
	g.held[name] = on
	g.mu.Unlock()
	<-on
}

func (g *gates) names() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Sorted(maps.Keys(g.held))
}

func (g *gates) letOn(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.held[name])
	delete(g.held, name)
}

func (g *gates) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = false
	for name, on := range g.held {
		close(on)
		delete(g.held, name)
	}
}

// gatedHost is a host of which every accepted stream stops after what it read
// and before what it writes.
type gatedHost struct {
	*testkit.Host
	s *scenario
}

func (h gatedHost) SetStreamHandler(id protocol.ID, f network.StreamHandler) {
	h.Host.SetStreamHandler(id, func(inner network.Stream) {
		f(&gatedStream{Stream: inner, peer: inner.Conn().RemotePeer(), s: h.s})
	})
}

type gatedStream struct {
	network.Stream
	peer   peer.ID
	s      *scenario
	writes int // after HELLO
}

func (g *gatedStream) Read(p []byte) (int, error) {
	n, err := g.Stream.Read(p)
	what := "reads"
	if err != nil {
		what = "reads the end"
	}
	g.s.gates.wait(string(g.peer) + " " + what)
	return n, err
}

func (g *gatedStream) Write(p []byte) (int, error) {
	if g.s.begun.Load() {
		g.writes++
	}
	second := g.writes == 2
	if second && g.s.bug == jams {
		<-g.s.never
	}
	g.s.gates.wait(string(g.peer) + " writes" + framesIn(p))
	switch {
	case second && g.s.bug == loses:
		return len(p), nil
	case second && g.s.bug == twice:
		_, _ = g.Stream.Write(p)
	}
	return g.Stream.Write(p)
}

// framesIn names the frames of one write.
func framesIn(p []byte) string {
	var b strings.Builder
	for r := oap.NewReader(bytes.NewReader(p), oap.MaxFrame); ; {
		f, err := r.Next()
		if err != nil {
			return b.String()
		}
		b.WriteString(" " + name(f))
	}
}

func name(f oap.Frame) string {
	if f.Flags.Has(oap.FlagEvent) {
		return "GOAWAY"
	}
	return fmt.Sprintf("%d:%d", f.CorrID, f.Code)
}
