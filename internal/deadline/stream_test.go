package deadline_test

import (
	"errors"
	"io"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"

	"allium/internal/deadline"
	"allium/internal/testkit"
)

const (
	patience = 5 * time.Second
	rate     = 8 << 10
)

// noted is a stream that notes the deadlines that are set on it.
type noted struct {
	network.Stream
	reads, writes int
	late          bool // reads give their bytes together with a timeout, as yamux may
}

func (s *noted) SetReadDeadline(t time.Time) error {
	s.reads++
	return s.Stream.SetReadDeadline(t)
}

func (s *noted) SetWriteDeadline(t time.Time) error {
	s.writes++
	return s.Stream.SetWriteDeadline(t)
}

func (s *noted) Read(p []byte) (int, error) {
	n, err := s.Stream.Read(p)
	if s.late && err == nil {
		time.Sleep(time.Minute) // and so it passes
		err = os.ErrDeadlineExceeded
	}
	return n, err
}

// halves are a reader and a writer of one stream, and its other end.
func halves(o testkit.Options) (r deadline.Reader, w deadline.Writer, s *noted, peer *testkit.Stream) {
	a, b := testkit.Pipe(o)
	s = &noted{Stream: a}
	return deadline.NewReader(s, deadline.NewMinRate(patience, rate)), deadline.NewWriter(s,
		deadline.NewMinRate(patience, rate)), s, b
}

// TestDeadlinesAreLeft: reads and writes that follow each other closely share a
// deadline; what a wait lasts does not depend on it.
func TestDeadlinesAreLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w, s, peer := halves(testkit.Options{Window: 4 * deadline.Piece})
		const idle = 30 * time.Second
		buf := make([]byte, 64)
		for range 100 { // one a second: the deadline that is set is often too early
			time.Sleep(time.Second)
			_, _ = peer.Write([]byte("x"))
			now := time.Now()
			if n, err := r.ReadUntil(buf, now, now.Add(idle)); n != 1 || err != nil {
				t.Fatal(n, err)
			}
			if n, err := w.Write(buf); n != len(buf) || err != nil {
				t.Fatal(n, err)
			}
			w.Rest()
			_, _ = io.ReadFull(peer, buf)
		}
		if s.reads > 5 || s.writes > 30 {
			t.Errorf("%d read deadlines in 100 s of an idle time of 30 s, %d write deadlines", s.reads, s.writes)
		}
		now := time.Now()
		if n, err := r.ReadUntil(buf, now, now.Add(idle)); n != 0 || !errors.Is(err, deadline.ErrPassed) ||
			time.Since(now) != idle {
			t.Errorf("%d bytes, %v after %s", n, err, time.Since(now))
		}
		stuck := time.Now()
		if _, err := w.Write(make([]byte, 1<<20)); !errors.Is(err, deadline.ErrPassed) ||
			time.Since(stuck) != patience {
			t.Errorf("%v after %s", err, time.Since(stuck))
		}
		if _, err := w.Write(buf); !errors.Is(err, deadline.ErrPassed) || time.Since(stuck) != patience {
			t.Errorf("again: %v after %s", err, time.Since(stuck))
		}
	})
}

// TestBytesBeatTheirDeadline: bytes that come as the deadline passes are read.
func TestBytesBeatTheirDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _, s, peer := halves(testkit.Options{})
		s.late = true
		_, _ = peer.Write([]byte("abc"))
		now := time.Now()
		if n, err := r.ReadUntil(make([]byte, 8), now, now.Add(patience)); n != 3 || err != nil {
			t.Fatal(n, err)
		}
	})
}

// dead is a stream whose connection timed out: every call says so at once.
type dead struct {
	network.Stream
	calls int
}

var errGone = &network.ConnError{TransportError: os.ErrDeadlineExceeded}

func (d *dead) Read([]byte) (int, error) {
	d.calls++
	return 0, errGone
}

func (d *dead) Write([]byte) (int, error) {
	d.calls++
	return 0, errGone
}

func (*dead) SetReadDeadline(time.Time) error  { return nil }
func (*dead) SetWriteDeadline(time.Time) error { return nil }

// TestDeadConnection: the timeout of a connection is not taken for the deadline,
// for which one would wait by asking again and again.
func TestDeadConnection(t *testing.T) {
	if !os.IsTimeout(os.ErrDeadlineExceeded) || !errors.Is(errGone, os.ErrDeadlineExceeded) {
		t.Fatal("the error is not like those of transports")
	}
	d := &dead{}
	r, w := deadline.NewReader(d, deadline.NewMinRate(patience, rate)), deadline.NewWriter(d,
		deadline.NewMinRate(patience, rate))
	now := time.Now()
	if _, err := r.ReadUntil(make([]byte, 8), now, now.Add(time.Hour)); !errors.Is(err, errGone) || d.calls != 1 {
		t.Errorf("read: %v after %d calls", err, d.calls)
	}
	d.calls = 0
	if _, err := w.Write(make([]byte, 8)); !errors.Is(err, errGone) || d.calls != 1 {
		t.Errorf("write: %v after %d calls", err, d.calls)
	}
}

// TestWriterPace: a peer takes pieces with pauses between; the writer waits for
// it exactly when it is at the rate.
func TestWriterPace(t *testing.T) {
	for _, c := range []struct {
		name  string
		piece int
		every time.Duration
		whole bool
	}{
		{"at the rate", rate, time.Second, true},
		{"at the rate, in large steps", 4 * rate, 4 * time.Second, true},
		{"below it", rate / 2, time.Second, false},
		{"a byte now and then", 1, 4900 * time.Millisecond, false},
		{"much, and then nothing for too long", 10 * rate, 2*patience + time.Second, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, w, _, peer := halves(testkit.Options{Window: rate})
				done := make(chan error, 1)
				go func() {
					_, err := w.Write(make([]byte, 40*rate))
					done <- err
				}()
				buf := make([]byte, c.piece)
				for range 100 {
					time.Sleep(c.every)
					for n := 0; n < c.piece; {
						_ = peer.SetReadDeadline(time.Now().Add(time.Millisecond))
						m, err := peer.Read(buf[n:])
						if err != nil {
							break
						}
						n += m
					}
				}
				if err := <-done; (err == nil) != c.whole || err != nil && !errors.Is(err, deadline.ErrPassed) {
					t.Error(err)
				}
			})
		})
	}
}
