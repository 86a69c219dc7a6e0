package allowance

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/network"

	"allium/internal/env"
	"allium/internal/ipgroup"
	"allium/protocols/status"
)

// stream is a network.Stream that returns only admitted messages. The handler's goroutine
// calls Read and Write; the other methods are safe for concurrent use.
type stream struct {
	network.Stream
	g   *Guard
	ctx context.Context // of the run; set before the handler starts
	max int             // most bytes of a message

	group ipgroup.Group // of the connection

	message

	reset atomic.Bool // reset by the handler or by stop; only the first code is sent

	mu       sync.Mutex // lock: leaf
	waiting  bool       // for a message; stop then resets the stream
	stopping bool
}

// message is the message that a stream reads or answers. Only the handler's goroutine uses it.
type message struct {
	lengths        lengthReader
	buf            buffer
	unread         []byte // its rest; points into buf
	releaseRequest func() // releases what it took; nil: nothing
	releaseWorker  func() // nil: no worker is taken
	answering      bool   // the handler has written since it received the message
}

func newStream(raw network.Stream, g *Guard, maxMessage int) *stream {
	s := &stream{Stream: raw, g: g, max: maxMessage, group: ipgroup.Of(raw.Conn().RemoteMultiaddr())}
	s.lengths = lengthReader{src: raw, started: func() error { return raw.SetReadDeadline(time.Now().Add(ioTimeout)) }}
	return s
}

// Read returns bytes of one message, its length included, and never of two messages. It
// returns io.EOF when the peer has finished or the guard stops. After a refusal it resets
// the stream and returns the refusal.
func (s *stream) Read(p []byte) (int, error) {
	if len(s.unread) == 0 {
		if err := s.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, s.unread)
	s.unread = s.unread[n:]
	if len(s.unread) == 0 {
		s.buf.free()
	}
	return n, nil
}

// next releases what the previous message took and waits for the next one.
func (s *stream) next() error {
	s.releaseAll()
	if !s.beginWait() {
		return io.EOF
	}
	err := s.receive()
	s.endWait()
	if err == nil {
		return nil
	}
	s.releaseAll()
	if code, ours := s.refusal(err); ours {
		_ = s.ResetWithError(code)
	}
	return err
}

// receive admits a message, reads it into unread and takes a worker for it.
func (s *stream) receive() error {
	n, err := s.lengths.read(s.max)
	if err != nil {
		return err
	}
	var head [binary.MaxVarintLen64]byte
	length := binary.PutUvarint(head[:], uint64(n))
	if s.releaseRequest, err = s.g.Admit(s.ctx, s.Conn().RemotePeer(), s.group, length+n); err != nil {
		return err
	}
	msg := s.buf.get(length + n)
	copy(msg, head[:length])
	if _, err := io.ReadFull(s.Stream, msg[length:]); err != nil {
		if errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF // the stream ended within a message
		}
		return err
	}
	if err := s.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	if s.releaseWorker, err = s.g.Work(s.ctx); err != nil {
		return err
	}
	s.unread = msg
	return nil
}

// refusal returns the code that tells the peer why its stream is reset, and false if the
// stream ended by itself. It counts errors that no limit has counted.
func (s *stream) refusal(err error) (network.StreamErrorCode, bool) {
	var e *status.Error
	switch {
	case errors.As(err, &e):
	case os.IsTimeout(err):
		s.g.m.timeouts.WithLabelValues(env.TimeoutDHTRead).Inc()
		return network.StreamGarbageCollected, true
	default:
		return 0, false
	}
	switch e.Outcome {
	case status.RateLimit:
		return network.StreamRateLimited, true
	case status.FrameOversize, status.BadFrame:
		s.g.m.count(kindMessage)
		return network.StreamProtocolViolation, true
	case status.Canceled:
		return network.StreamShutdown, true
	default: // Quota, Busy, and Timeout while waiting for a worker
		return network.StreamResourceLimitExceeded, true
	}
}

// Write sends bytes of a response. The first call releases the worker. From then on the
// whole response has 5 s; after that the stream is reset.
func (s *stream) Write(p []byte) (int, error) {
	if !s.answering {
		s.answering = true
		s.freeWorker()
		if err := s.SetWriteDeadline(time.Now().Add(ioTimeout)); err != nil {
			return 0, err
		}
	}
	n, err := s.Stream.Write(p)
	if err != nil && os.IsTimeout(err) {
		s.g.m.timeouts.WithLabelValues(env.TimeoutDHTWrite).Inc()
		_ = s.ResetWithError(network.StreamGarbageCollected)
	}
	return n, err
}

// Reset implements network.Stream. It does nothing after the first reset.
func (s *stream) Reset() error { return s.ResetWithError(network.StreamNoError) }

// ResetWithError implements network.Stream. Only the first code is sent.
func (s *stream) ResetWithError(code network.StreamErrorCode) error {
	if s.reset.Swap(true) {
		return nil
	}
	return s.Stream.ResetWithError(code)
}

// releaseAll releases everything that the current message took.
func (s *stream) releaseAll() {
	s.freeWorker()
	if s.releaseRequest != nil {
		s.releaseRequest()
	}
	s.buf.free()
	s.releaseRequest, s.unread, s.answering = nil, nil, false
}

// freeWorker releases the worker.
func (s *stream) freeWorker() {
	if s.releaseWorker != nil {
		s.releaseWorker()
		s.releaseWorker = nil
	}
}

// beginWait marks that the handler waits for a message. It returns false if the guard stops.
func (s *stream) beginWait() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = !s.stopping
	return s.waiting
}

// endWait marks that the wait has ended. If stop was called meanwhile, the stream is reset.
func (s *stream) endWait() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = false
}

// stop ends the stream: at once if it waits for a message, else at the handler's next Read.
// That Read returns io.EOF, so the handler closes the stream and the response gets through.
func (s *stream) stop() {
	s.mu.Lock()
	s.stopping = true
	waiting := s.waiting
	s.mu.Unlock()
	if waiting {
		_ = s.ResetWithError(network.StreamShutdown)
	}
}
