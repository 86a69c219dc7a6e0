package testkit

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
)

// Options describe a stream. They hold for each direction. The zero value is a stream
// without latency and with a window of 256 KiB.
type Options struct {
	Latency  time.Duration // from a write to its first possible read
	Window   int           // unread bytes at which Write blocks; 0: 256 KiB
	MaxRead  int           // most bytes that one Read returns; 0: no limit
	CutAfter int64         // bytes after which further bytes are dropped, as by Cut; 0: never
}

// errClosed is the error of reads and writes on a closed end.
var errClosed = errors.New("testkit: stream closed")

var streamIDs atomic.Int64

// Stream is one end of a stream. It implements network.Stream. It is safe for
// concurrent use.
type Stream struct {
	id      string
	proto   atomic.Pointer[protocol.ID]
	conn    *Conn
	in, out *pipe
	resets  *sync.Mutex // held during a reset; shared by both ends; lock: metadata
	dir     network.Direction
}

var _ network.Stream = (*Stream)(nil)

// Pipe returns the two ends of a stream between two peers. a is the end of the opener.
func Pipe(o Options) (a, b *Stream) {
	ca, cb := newConns(peer.ID("a"), peer.ID("b"))
	return openStream(o, ca, cb, "")
}

func openStream(o Options, ca, cb *Conn, proto protocol.ID) (a, b *Stream) {
	if o.Window == 0 {
		o.Window = 256 << 10
	}
	there, back := newPipe(o), newPipe(o)
	id := fmt.Sprint("stream-", streamIDs.Add(1))
	resets := new(sync.Mutex)
	a = &Stream{id: id, conn: ca, in: back, out: there, resets: resets, dir: network.DirOutbound}
	b = &Stream{id: id, conn: cb, in: there, out: back, resets: resets, dir: network.DirInbound}
	a.proto.Store(&proto)
	b.proto.Store(&proto)
	return a, b
}

// Read implements network.Stream.
func (s *Stream) Read(p []byte) (int, error) { return s.in.read(p) }

// Write implements network.Stream.
func (s *Stream) Write(p []byte) (int, error) { return s.out.write(p) }

// Close implements network.Stream: it closes both directions of this end. The other
// end can read the bytes already written, then io.EOF.
func (s *Stream) Close() error {
	return errors.Join(s.CloseWrite(), s.CloseRead())
}

// CloseWrite implements network.Stream.
func (s *Stream) CloseWrite() error {
	s.out.update(func() {
		s.out.writeClosed = true
		if s.out.writeErr == nil {
			s.out.writeErr = errClosed
		}
		s.out.writeDeadline.clear()
	})
	return nil
}

// CloseRead implements network.Stream. Later bytes of the other end are dropped.
func (s *Stream) CloseRead() error {
	s.in.update(func() {
		s.in.readClosed = true
		if s.in.readErr == nil {
			s.in.readErr = errClosed
		}
		s.in.readDeadline.clear()
	})
	return nil
}

// Reset implements network.Stream.
func (s *Stream) Reset() error { return s.ResetWithError(0) }

// ResetWithError implements network.Stream. Both ends lose their unread bytes at once,
// whatever the latency.
func (s *Stream) ResetWithError(code network.StreamErrorCode) error {
	// A goroutine that the first reset wakes may reset the stream with another code. It
	// must not come before the second reset.
	s.resets.Lock()
	defer s.resets.Unlock()
	s.in.reset(code, true)
	s.out.reset(code, false)
	return nil
}

// Cut drops all bytes that this end writes from now on. The other end receives
// nothing and no error, and the window of this end fills.
func (s *Stream) Cut() { s.out.update(func() { s.out.cut = true }) }

// Written returns the number of bytes that this end wrote, with those dropped by a cut.
func (s *Stream) Written() int64 {
	s.out.mu.Lock()
	defer s.out.mu.Unlock()
	return s.out.sent
}

// Err returns the error of reads on this end without reading: nil while the end is
// open, a *network.StreamError after a reset.
func (s *Stream) Err() error {
	s.in.mu.Lock()
	defer s.in.mu.Unlock()
	return s.in.readErr
}

// SetDeadline implements network.Stream.
func (s *Stream) SetDeadline(t time.Time) error {
	return errors.Join(s.SetReadDeadline(t), s.SetWriteDeadline(t))
}

// SetReadDeadline implements network.Stream.
func (s *Stream) SetReadDeadline(t time.Time) error {
	s.in.set(&s.in.readDeadline, t)
	return nil
}

// SetWriteDeadline implements network.Stream.
func (s *Stream) SetWriteDeadline(t time.Time) error {
	s.out.set(&s.out.writeDeadline, t)
	return nil
}

// ID implements network.Stream. Both ends have the same id.
func (s *Stream) ID() string { return s.id }

// Protocol implements network.Stream.
func (s *Stream) Protocol() protocol.ID { return *s.proto.Load() }

// SetProtocol implements network.Stream.
func (s *Stream) SetProtocol(id protocol.ID) error {
	s.proto.Store(&id)
	return nil
}

// Stat implements network.Stream.
func (s *Stream) Stat() network.Stats { return network.Stats{Direction: s.dir} }

// Conn implements network.Stream.
func (s *Stream) Conn() network.Conn { return s.conn }

// Scope implements network.Stream.
func (s *Stream) Scope() network.StreamScope { return &network.NullScope{} }
