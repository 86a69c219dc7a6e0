package node_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"allium/internal/testkit"
	"allium/node/config"
	"allium/protocols/oap"
	"allium/protocols/object"
	"allium/protocols/session"
)

// TestOverload: one peer floods a node with all that sessions and object
// streams take, read and unread, while an honest one pings and fetches and an
// operator looks. Everybody but the flood gets all they ask for; the flood is
// told busy, and when it ends nothing of it is left.
func TestOverload(t *testing.T) {
	noLeaks(t)
	a := start(t,
		func(c *config.Config) { c.Object.WriteTimeout, c.Session.WriteTimeout = 5*time.Second, 5*time.Second })
	b := start(t, joining(a))
	dir := t.TempDir()
	var roots []string
	for i := range 8 {
		p := filepath.Join(dir, fmt.Sprint("f", i))
		if err := os.WriteFile(p, bytes.Repeat([]byte{byte(i)}, 1000+i<<14), 0o644); err != nil {
			t.Fatal(err)
		}
		roots = append(roots, add(t, a, p)[0].Root.String())
	}
	large := filepath.Join(dir, "large")
	if err := os.WriteFile(large, bytes.Repeat([]byte("large"), 1<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	largeRoot := add(t, a, large)[0].Root.String()
	for _, r := range roots {
		awaitProvider(t, b, r)
	}

	f := newFlood(t, a.ID().Addrs[0])
	f.pings()
	for range 4 {
		f.gets(roots[1], true)
		f.gets(largeRoot, false)
	}
	f.storm()
	f.await(t) // it is refused by now, on sessions and on object streams

	var work sync.WaitGroup
	work.Go(func() { // the honest peer
		for i, r := range roots {
			if got, err := b.api.Fetch(t.Context(), r, nil); err != nil || got.Objects != 1 {
				t.Errorf("fetch %d: %+v, %v", i, got, err)
			}
			if _, err := b.api.Ping(t.Context(), a.ID().ID); err != nil {
				t.Errorf("ping %d: %v", i, err)
			}
		}
	})
	work.Go(func() { // the operator
		defer http.DefaultClient.CloseIdleConnections()
		for i := range 20 {
			for _, path := range []string{"/healthz", "/readyz", "/metrics", "/version", "/limits"} {
				resp, err := http.Get(a.ID().Admin + path)
				if err != nil {
					t.Errorf("%s %d: %v", path, i, err)
					continue
				}
				_, err = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				notReady := path == "/readyz" && resp.StatusCode == http.StatusServiceUnavailable
				if err != nil || resp.StatusCode != http.StatusOK && !notReady {
					t.Errorf("%s %d: %s, %v", path, i, resp.Status, err)
				}
			}
		}
	})
	work.Wait()
	f.stop()
	if n := f.wrong.Load(); n != 0 {
		t.Errorf("%d answers to the flood are neither 200 nor busy with a wait; one of them: %v", n, f.example.Load())
	}
	t.Logf("the flood: %d answered, %d pings and %d gets refused, %d streams reset",
		f.served.Load(), f.busyPings.Load(),
		f.busyGets.Load(), f.resets.Load())

	if err := b.stop(); err != nil {
		t.Error(err)
	}
	testkit.Eventually(t, "that nothing of it is held", func() bool {
		limits, err := a.api.Limits(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range limits.Limits {
			if (strings.HasPrefix(l.Name, "session.") || strings.HasPrefix(l.Name, "object.")) && l.Current != 0 {
				return false
			}
		}
		return true
	})
	if n := metric(t, a, "session_handler_panics_total") + metric(t, a, "session_worker_deaths_total"); n != 0 {
		t.Errorf("%d panics", n)
	}
	if o, c := metric(t, a, "session_open_total"), metric(t, a, "session_close_total"); o != c {
		t.Errorf("%d sessions opened, %d closed", o, c)
	}
}

// flood is a peer without a node.
type flood struct {
	host   host.Host
	to     peer.ID
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	served, busyPings, busyGets, resets, wrong atomic.Int64
	example                                    atomic.Value // string: one of the wrong
}

func newFlood(t *testing.T, addr string) *flood {
	t.Helper()
	h, err := libp2p.New(libp2p.NoListenAddrs, libp2p.DisableRelay())
	if err != nil {
		t.Fatal(err)
	}
	to, err := peer.AddrInfoFromString(addr)
	if err != nil {
		t.Fatal(err)
	}
	f := &flood{host: h, to: to.ID}
	f.ctx, f.cancel = context.WithCancel(t.Context())
	t.Cleanup(f.stop)
	if err := h.Connect(f.ctx, *to); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *flood) stop() {
	f.cancel()
	_ = f.host.Close()
	f.wg.Wait()
}

// await waits until both kinds of requests were refused.
func (f *flood) await(t *testing.T) {
	t.Helper()
	testkit.Eventually(t, "refusals of both kinds",
		func() bool { return f.busyPings.Load() > 0 && f.busyGets.Load() > 0 })
}

// streams runs with a stream of a protocol again and again, as each ends.
func (f *flood) streams(id protocol.ID, use func(network.Stream)) {
	f.wg.Go(func() {
		for f.ctx.Err() == nil {
			s, err := f.host.NewStream(f.ctx, f.to, id)
			if err != nil {
				time.Sleep(time.Millisecond) // more streams than one peer has
				continue
			}
			use(s)
			_ = s.Reset()
			f.resets.Add(1)
		}
	})
}

// write sends a frame again and again until the stream fails.
func (f *flood) write(s network.Stream, next func(corr uint64) oap.Frame) {
	w := oap.NewWriter(s, oap.MaxFrame)
	for corr := uint64(1); f.ctx.Err() == nil; corr++ {
		if w.Write(next(corr)) != nil {
			return
		}
	}
}

// read counts the answers until the stream fails.
func (f *flood) read(s network.Stream, busy *atomic.Int64) {
	for r := oap.NewReader(s, oap.MaxFrame); ; {
		a, err := r.Next()
		if err != nil {
			return
		}
		switch {
		case !a.Flags.Has(oap.FlagEnd):
		case a.Code == 200:
			f.served.Add(1)
		case a.Code == 429 && strings.Contains(string(a.Payload), `"reason":"busy"`) &&
			strings.Contains(string(a.Payload), `"retry_after_ms":`):
			busy.Add(1)
		default:
			f.wrong.Add(1)
			f.example.Store(fmt.Sprintf("%d %.200s", a.Code, a.Payload))
		}
	}
}

const oneFrame = oap.FlagReq | oap.FlagStart | oap.FlagEnd

// pings floods one session.
func (f *flood) pings() {
	f.streams(session.ProtocolID, func(s network.Stream) {
		frame := oap.Frame{Header: oap.Header{Flags: oneFrame}, Payload: []byte(`{}`)}
		if err := oap.NewWriter(s, oap.MaxFrame).Write(frame); err != nil {
			return
		}
		var reading sync.WaitGroup
		reading.Go(func() { f.read(s, &f.busyPings) })
		f.write(s, func(corr uint64) oap.Frame {
			return oap.Frame{Header: oap.Header{Flags: oneFrame, CorrID: corr}, Payload: []byte("ping")}
		})
		_ = s.Reset()
		reading.Wait()
	})
}

// gets floods an object stream with requests of one object, reading the
// answers or not.
func (f *flood) gets(root string, reads bool) {
	request := fmt.Appendf(nil, `{"op":"get","objs":[%q]}`, root)
	f.streams(object.ProtocolID, func(s network.Stream) {
		var reading sync.WaitGroup
		if reads {
			reading.Go(func() { f.read(s, &f.busyGets) })
		}
		f.write(s, func(corr uint64) oap.Frame {
			return oap.Frame{Header: oap.Header{Flags: oneFrame, Proto: oap.ProtoObject, CorrID: corr},
				Payload: request}
		})
		_ = s.Reset()
		reading.Wait()
	})
}

// storm opens object streams that end inside their first frame.
func (f *flood) storm() {
	f.wg.Go(func() {
		for i := 0; f.ctx.Err() == nil; i++ {
			if s, err := f.host.NewStream(f.ctx, f.to, object.ProtocolID); err == nil {
				_, _ = s.Write(make([]byte, i%38))
				_ = s.Reset()
				f.resets.Add(1)
			}
			time.Sleep(time.Millisecond) // thousands in one moment are what the tests of sessions do
		}
	})
}
