package session

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"

	"allium/protocols/oap"
	"allium/protocols/streamtest"
)

// timed is a stream that notes the deadlines that are set on it.
type timed struct {
	network.Stream
	reads, writes int
	late          bool // reads give their bytes together with a timeout, as yamux may
}

func (s *timed) SetReadDeadline(t time.Time) error {
	s.reads++
	return s.Stream.SetReadDeadline(t)
}

func (s *timed) SetWriteDeadline(t time.Time) error {
	s.writes++
	return s.Stream.SetWriteDeadline(t)
}

func (s *timed) Read(p []byte) (int, error) {
	n, err := s.Stream.Read(p)
	if s.late && err == nil {
		err = deadlineError{}
	}
	return n, err
}

// timedLink is a link in the middle of its session, and the other end of its
// stream.
func timedLink() (*link, *timed, *streamtest.Stream) {
	a, b := streamtest.Pipe(streamtest.Options{})
	s := &timed{Stream: a}
	l := &link{
		stream: s, ready: true, idleAfter: 30 * time.Second, lastActive: time.Now(),
		reading: pace{patience: 5 * time.Second, rate: 8 << 10}, writing: pace{patience: 5 * time.Second, rate: 8 << 10},
	}
	l.in = oap.NewReader(timedReader{l}, oap.MaxFrame)
	return l, s, b
}

// TestDeadlinesAreLeft: reads and writes that follow each other closely share a
// deadline; what a wait lasts does not depend on it.
func TestDeadlinesAreLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s, peer := timedLink()
		buf := make([]byte, 64)
		for range 100 { // one a second: the deadline that is set is often too early
			time.Sleep(time.Second)
			l.lastActive = time.Now()
			_, _ = peer.Write([]byte("x"))
			if n, err := (timedReader{l}).Read(buf); n != 1 || err != nil {
				t.Fatal(n, err)
			}
			if n, err := (timedWriter{l}).Write(buf); n != len(buf) || err != nil {
				t.Fatal(n, err)
			}
			l.writing.rest()
			_, _ = io.ReadFull(peer, buf)
		}
		if s.reads > 5 || s.writes > 30 {
			t.Errorf("%d read deadlines in 100 s of an idle time of 30 s, %d write deadlines", s.reads, s.writes)
		}
		idle := time.Now()
		if n, err := (timedReader{l}).Read(buf); n != 0 || !isTimeout(err) || time.Since(idle) != 30*time.Second {
			t.Errorf("%d bytes, %v after %s", n, err, time.Since(idle))
		}
		stuck := time.Now()
		if _, err := (timedWriter{l}).Write(make([]byte, 1<<20)); !isTimeout(err) || time.Since(stuck) != 5*time.Second {
			t.Errorf("%v after %s", err, time.Since(stuck))
		}
	})
}

// TestBytesBeatTheirDeadline: bytes that come as the deadline passes are read.
func TestBytesBeatTheirDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s, peer := timedLink()
		s.late = true
		_, _ = peer.Write([]byte("abc"))
		if n, err := (timedReader{l}).Read(make([]byte, 8)); n != 3 || err != nil {
			t.Fatal(n, err)
		}
	})
}
