package guard

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

	"allium/internal/ipgroup"
	"allium/protocols/status"
)

// stream is a network.Stream that hands out admitted messages only. Read and
// Write are the handler's goroutine's; the rest may be called by any.
type stream struct {
	network.Stream
	g   *Guard
	ctx context.Context // the run's; set before the handler starts
	max int             // bytes of a message

	group ipgroup.Group // of the connection

	// The handler's goroutine's alone.
	in        prefix
	buf       buffer
	rest      []byte // of the message in hand, not read yet; within buf
	admitted  func() // gives back what the message in hand took; nil: nothing
	working   func() // gives back the worker's place; nil: none
	answering bool   // something has been written since the message was handed over

	reset atomic.Bool // reset, here or by stop; the first code counts

	mu       sync.Mutex
	waiting  bool // for a message: stop may reset
	stopping bool
}

func newStream(raw network.Stream, g *Guard, maxMessage int) *stream {
	s := &stream{Stream: raw, g: g, max: maxMessage, group: ipgroup.Of(raw.Conn().RemoteMultiaddr())}
	s.in = prefix{src: raw, started: func() error { return raw.SetReadDeadline(time.Now().Add(ioTimeout)) }}
	return s
}

// Read returns bytes of one message, its length included, and never of the
// next one with it. It returns io.EOF when the peer is done, or the guard
// stops; a refusal is returned when the stream has been reset for it.
func (s *stream) Read(p []byte) (int, error) {
	if len(s.rest) == 0 {
		if err := s.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	if len(s.rest) == 0 {
		s.buf.free()
	}
	return n, nil
}

// next gives back what the message before took and waits for one more.
func (s *stream) next() error {
	s.finish()
	if !s.wait() {
		return io.EOF
	}
	err := s.receive()
	s.waited()
	if err == nil {
		return nil
	}
	s.finish()
	if code, ours := s.refusal(err); ours {
		_ = s.ResetWithError(code)
	}
	return err
}

// receive reads a message into rest and takes for it what it takes.
func (s *stream) receive() error {
	n, err := s.in.read(s.max)
	if err != nil {
		return err
	}
	var head [binary.MaxVarintLen64]byte
	length := binary.PutUvarint(head[:], uint64(n))
	if s.admitted, err = s.g.Admit(s.ctx, s.Conn().RemotePeer(), s.group, length+n); err != nil {
		return err
	}
	msg := s.buf.get(length + n)
	copy(msg, head[:length])
	if _, err := io.ReadFull(s.Stream, msg[length:]); err != nil {
		if errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF // the end is not between messages
		}
		return err
	}
	if err := s.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	if s.working, err = s.g.Work(s.ctx); err != nil {
		return err
	}
	s.rest = msg
	return nil
}

// refusal is the code that tells the peer why its stream ends; false when the
// stream ended by itself. It counts what no limit has counted.
func (s *stream) refusal(err error) (network.StreamErrorCode, bool) {
	var e *status.Error
	switch {
	case errors.As(err, &e):
	case os.IsTimeout(err):
		s.g.m.timeouts.WithLabelValues("read").Inc()
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
	default: // Quota, Busy, and Timeout of the wait for a worker
		return network.StreamResourceLimitExceeded, true
	}
}

// Write sends bytes of an answer. The first gives the worker's place back, and
// from then the whole answer has 5 s, or the stream is reset.
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
		s.g.m.timeouts.WithLabelValues("write").Inc()
		_ = s.ResetWithError(network.StreamGarbageCollected)
	}
	return n, err
}

// Reset implements network.Stream. It does not replace a code already given.
func (s *stream) Reset() error { return s.ResetWithError(network.StreamNoError) }

// ResetWithError implements network.Stream. The first code counts.
func (s *stream) ResetWithError(code network.StreamErrorCode) error {
	if s.reset.Swap(true) {
		return nil
	}
	return s.Stream.ResetWithError(code)
}

// finish gives back all that the message in hand holds.
func (s *stream) finish() {
	s.freeWorker()
	if s.admitted != nil {
		s.admitted()
	}
	s.buf.free()
	s.admitted, s.rest, s.answering = nil, nil, false
}

// freeWorker gives the worker's place back.
func (s *stream) freeWorker() {
	if s.working != nil {
		s.working()
		s.working = nil
	}
}

// wait says that the handler waits for a message; false when it need not.
func (s *stream) wait() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = !s.stopping
	return s.waiting
}

// waited says that the wait is over. When stop has come between, the handler
// finds its stream reset.
func (s *stream) waited() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = false
}

// stop ends the stream: now when it waits for a message, else when the handler
// reads on, which then closes it so that the answer gets through.
func (s *stream) stop() {
	s.mu.Lock()
	s.stopping = true
	waiting := s.waiting
	s.mu.Unlock()
	if waiting {
		_ = s.ResetWithError(network.StreamShutdown)
	}
}
