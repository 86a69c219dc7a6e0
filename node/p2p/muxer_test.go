package p2p

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/p2p/muxer/yamux"

	"allium/internal/limits"
)

// muxed returns a muxer, one of its connections, and the other end of the connection, which nobody reads.
func muxed(t *testing.T) (*boundedMuxer, network.MuxedConn, net.Conn) {
	t.Helper()
	mux := *yamux.DefaultTransport
	mux.MaxMessageSize, mux.EnableKeepAlive = muxMessage, false
	m := newBoundedMuxer(&mux, 1, limits.NewRegistry(nil))
	ours, theirs := net.Pipe()
	c, err := m.NewConn(ours, false, &network.NullScope{})
	if err != nil {
		t.Fatal(err)
	}
	return m, c, theirs
}

// window is the number of bytes that a new stream takes before the other end has read any.
const window = 256 << 10

// open opens a stream.
func open(t *testing.T, c network.MuxedConn) network.MuxedStream {
	t.Helper()
	st, err := c.OpenStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// TestLittleWaits: beside streams that send as much as they may over a connection that takes nothing, a small message
// waits for maxUnsent bytes and one message at most, and all that was written arrives.
func TestLittleWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, c, theirs := muxed(t)
		const streams, large = 16, 16 * window
		var ends sync.WaitGroup
		for range streams {
			bulk := open(t, c)
			ends.Go(func() {
				if n, err := bulk.Write(make([]byte, window)); n != window || err != nil {
					t.Errorf("%d bytes, %v", n, err)
				}
			})
		}
		small := open(t, c)
		synctest.Wait()
		if n := m.all.Load(); n > maxUnsent || n <= maxUnsent-muxMessage {
			t.Errorf("%d bytes are queued", n)
		}
		ends.Go(func() {
			if _, err := small.Write([]byte("small")); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		before, all := 0, 0
		for header := make([]byte, muxHeader); all < large+len("small"); {
			if _, err := io.ReadFull(theirs, header); err != nil {
				t.Fatal(err)
			}
			if header[1] != 0 {
				continue // no data
			}
			body := make([]byte, binary.BigEndian.Uint32(header[8:]))
			if _, err := io.ReadFull(theirs, body); err != nil {
				t.Fatal(err)
			}
			if string(body) == "small" {
				before = all
			}
			all += len(body)
		}
		ends.Wait()
		if before == 0 || before > maxUnsent+muxMessage {
			t.Errorf("%d bytes were before the small message", before)
		}
		synctest.Wait()
		if n := m.all.Load(); n != 0 {
			t.Errorf("%d bytes are queued at the end", n)
		}
		_ = theirs.Close()
		_ = c.Close()
	})
}

// TestWaitingWriteEnds: a write that waits for the socket ends with its deadline, also one that is set later, with the
// stream, and with the connection.
func TestWaitingWriteEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  func(network.MuxedConn, network.MuxedStream) error
		want error // nil: any
	}{
		"deadline": {func(_ network.MuxedConn, st network.MuxedStream) error {
			return st.SetWriteDeadline(time.Now().Add(time.Second))
		}, os.ErrDeadlineExceeded},
		"both deadlines": {func(_ network.MuxedConn, st network.MuxedStream) error {
			return st.SetDeadline(time.Now().Add(-time.Second))
		}, os.ErrDeadlineExceeded},
		"reset": {func(_ network.MuxedConn, st network.MuxedStream) error {
			return st.Reset()
		}, network.ErrReset},
		"connection": {func(c network.MuxedConn, _ network.MuxedStream) error { return c.Close() }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, conn, theirs := muxed(t)
				failed := make(chan error, 1)
				var ends sync.WaitGroup
				for range maxUnsent / window {
					other := open(t, conn)
					ends.Go(func() { _, _ = other.Write(make([]byte, window)) })
				}
				synctest.Wait()
				st := open(t, conn)
				ends.Go(func() {
					_, err := st.Write(make([]byte, window))
					failed <- err
				})
				synctest.Wait()
				if err := c.end(conn, st); err != nil {
					t.Fatal(err)
				}
				if err := <-failed; err == nil || c.want != nil && !errors.Is(err, c.want) {
					t.Errorf("the write ended with %v", err)
				}
				_ = theirs.Close()
				_ = conn.Close()
				ends.Wait()
				synctest.Wait()
				if n := m.all.Load(); n != 0 {
					t.Errorf("%d bytes are queued at the end", n)
				}
			})
		})
	}
}
