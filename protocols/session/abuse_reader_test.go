package session_test

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"allium/internal/testkit"
	"allium/protocols/oap"
	"allium/protocols/session"
	"allium/protocols/status"
)

// faultyHost is a host whose session streams can be made to fail under their
// reader or their writer.
type faultyHost struct {
	*testkit.Host
	fault atomic.Pointer[fault]
}

// fault is what the streams' next reads and writes do instead; nil: nothing.
type fault struct{ read, write func() error }

func (h *faultyHost) SetStreamHandler(id protocol.ID, f network.StreamHandler) {
	h.Host.SetStreamHandler(id, func(s network.Stream) { f(faultyStream{s, h}) })
}

func (h *faultyHost) NewStream(ctx context.Context, p peer.ID, ids ...protocol.ID) (network.Stream, error) {
	s, err := h.Host.NewStream(ctx, p, ids...)
	if err != nil {
		return nil, err
	}
	return faultyStream{s, h}, nil
}

type faultyStream struct {
	network.Stream
	host *faultyHost
}

func (s faultyStream) Read(p []byte) (int, error) {
	n, err := s.Stream.Read(p) // a read that waits when the fault comes has it too
	if f := s.host.fault.Load(); f != nil && f.read != nil {
		return 0, f.read()
	}
	return n, err
}

func (s faultyStream) Write(p []byte) (int, error) {
	if f := s.host.fault.Load(); f != nil && f.write != nil {
		return 0, f.write()
	}
	return s.Stream.Write(p)
}

// TestReaderDies: whatever ends a session's reader, the writer ends after it,
// what was answered is sent when that can be, calls in flight are told a typed
// error, and a new session serves.
func TestReaderDies(t *testing.T) {
	broken := errors.New("the socket is gone")
	boom := func() error { panic("reader") }
	for _, tc := range []struct {
		name   string
		fault  fault
		panics float64
		code   network.StreamErrorCode // that the peer is reset with
		ends   bool                    // or: answered, and a clean end
		call   status.Outcome          // of a call in flight
	}{
		{"a read fails", fault{read: func() error { return broken }}, 0, 0, false, status.TransportDown},
		{"the stream ends between frames", fault{read: func() error { return io.EOF }}, 0, 0,
			true, status.TransportDown},
		{"the stream ends unexpectedly", fault{read: func() error { return io.ErrUnexpectedEOF }}, 0, 0, false,
			status.TransportDown},
		{"a read panics", fault{read: boom}, 1, 0, false, status.Internal},
		{"a write fails", fault{write: func() error { return broken }}, 0, 0, false, status.TransportDown},
		{"a write panics", fault{write: boom}, 1, 0, false, status.Internal},
	} {
		t.Run("acceptor: "+tc.name, func(t *testing.T) {
			bubble(t, testkit.Options{}, func(t *testing.T, net *testkit.Network) {
				host := &faultyHost{Host: net.Host("a")}
				n := startOn(t, host, session.DefaultConfig(), abused)
				defer n.stop()
				w := dial(t, net.Host("b"), "a")
				w.hello()
				w.send(oap.Header{Flags: whole, Proto: oap.ProtoRepair, CorrID: 1}, `{"op":"x","deadline_ms":1000}`)
				synctest.Wait()
				host.fault.Store(&tc.fault)
				w.send(oap.Header{Flags: whole, CorrID: 2}, "a frame to read")
				if tc.ends {
					w.wantAnswer(1, 504, "timeout")
					w.wantClose()
				} else {
					w.wantReset(tc.code)
				}
				host.fault.Store(nil)
				again := dial(t, net.Host("b"), "a")
				again.hello()
				again.ask(1, `{"op":"alive"}`)
				again.wantAnswer(1, 200, "alive")
				ended(t, n, tc.panics)
			})
		})
		t.Run("opener: "+tc.name, func(t *testing.T) {
			bubble(t, testkit.Options{}, func(t *testing.T, net *testkit.Network) {
				in := accepting(t, net.Host("b"))
				host := &faultyHost{Host: net.Host("a")}
				c := &calls{n: startOn(t, host, session.DefaultConfig(), nil)}
				defer c.n.stop()
				first := c.go1(t.Context(), `{}`)
				w := <-in
				w.greet(32)
				corr := w.recv().CorrID
				host.fault.Store(&tc.fault)
				var second *result
				if tc.fault.write != nil {
					second = c.go1(t.Context(), `{}`) // something to write
				} else {
					w.answer(corr, 200, "something to read")
				}
				synctest.Wait()
				host.fault.Store(nil)
				if tc.ends { // asked once more
					w = <-in
					w.greet(32)
					w.answer(w.recv().CorrID, 200, "again")
					c.wg.Wait()
					first.want(t, status.OK, "again")
				} else {
					c.wg.Wait()
					first.want(t, tc.call, "")
					if second != nil {
						second.want(t, tc.call, "")
					}
				}
				third := c.go1(t.Context(), `{}`)
				if !tc.ends {
					w = <-in
					w.greet(32)
				}
				w.answer(w.recv().CorrID, 200, "alive")
				c.wg.Wait()
				third.want(t, status.OK, "alive")
				ended(t, c.n, tc.panics)
			})
		})
	}
}

// TestReaderDiesInHello: callers that wait for the session are told.
func TestReaderDiesInHello(t *testing.T) {
	bubble(t, testkit.Options{}, func(t *testing.T, net *testkit.Network) {
		in := accepting(t, net.Host("b"))
		host := &faultyHost{Host: net.Host("a")}
		c := &calls{n: startOn(t, host, session.DefaultConfig(), nil)}
		defer c.n.stop()
		var waiting []*result
		for range 3 {
			waiting = append(waiting, c.go1(t.Context(), `{}`))
		}
		host.fault.Store(&fault{read: func() error { panic("reader") }})
		w := <-in
		w.greet(32)
		c.wg.Wait()
		for _, r := range waiting {
			r.want(t, status.Internal, "bug in this node")
		}
		ended(t, c.n, 1)
	})
}

// TestReaderDiesInARequest: the place that it had taken for the answer is free
// again for the peer's other sessions.
func TestReaderDiesInARequest(t *testing.T) {
	bubble(t, testkit.Options{}, func(t *testing.T, net *testkit.Network) {
		n := start(t, net.Host("a"), session.DefaultConfig(), echo)
		defer n.stop()
		other := dial(t, net.Host("b"), "a") // keeps what the peer has taken in the books
		other.hello()
		net.Beside("a", "b")
		w := dial(t, net.Host("b"), "a")
		w.hello()
		synctest.Wait()
		n.Unrate()
		w.ask(1, `{"op":"x"}`)
		w.wantReset(0)
		synctest.Wait()
		if got := len(n.Sessions()); got != 1 {
			t.Errorf("%d sessions are open", got)
		}
		for _, l := range n.limits.Snapshot() {
			if l.Name == "session.egress_frames" && l.Current != 0 {
				t.Errorf("still held: %+v", l)
			}
		}
		ended(t, n, 1)
	})
}

// ended looks that the sessions of n end and leave nothing.
func ended(t *testing.T, n *node, panics float64) {
	t.Helper()
	time.Sleep(time.Minute)
	synctest.Wait()
	if left := n.Sessions(); len(left) != 0 {
		t.Errorf("still open: %+v", left)
	}
	for _, l := range n.limits.Snapshot() {
		if l.Current != 0 {
			t.Errorf("still held: %+v", l)
		}
	}
	if got := n.metric(t, "session_handler_panics_total"); got != panics {
		t.Errorf("%v panics counted, want %v", got, panics)
	}
}
