package fault

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

const far = peer.ID("far")

// onPipe runs a test with a connection to far and its other end, and fails when
// something of it is left.
func onPipe(t *testing.T, test func(t *testing.T, f *Links, c *faultyConn, other net.Conn)) {
	synctest.Test(t, func(t *testing.T) {
		f := NewLinks(prometheus.NewRegistry())
		near, other := net.Pipe()
		c := f.conn(near, far)
		test(t, f, c, other)
		_ = c.Close()
		_ = other.Close()
		f.Close()
	})
}

func random(n int) []byte {
	p := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(p) // never fails
	return p
}

// beside runs a function and returns what waits for it.
func beside(f func()) (wait func()) {
	var wg sync.WaitGroup
	wg.Go(f)
	return wg.Wait
}

// TestConnDelay: each write is late by the delay, all of them by no more than
// that, and in order: it is a long way and not a slow one.
func TestConnDelay(t *testing.T) {
	for _, l := range []Link{{Delay: 50 * time.Millisecond},
		{Delay: 20 * time.Millisecond, Jitter: 30 * time.Millisecond}} {
		onPipe(t, func(t *testing.T, f *Links, c *faultyConn, other net.Conn) {
			l.Peer = far
			f.Set([]Link{l}, 0)
			want := random(1 << 20)
			begun := time.Now()
			for p := want; len(p) > 0; {
				n := min(len(p), 1+rand.IntN(40_000))
				if _, err := c.Write(p[:n]); err != nil {
					t.Fatal(err)
				}
				p = p[n:]
			}
			if took := time.Since(begun); took != 0 {
				t.Errorf("writing took %s", took)
			}
			got := make([]byte, len(want))
			if _, err := io.ReadFull(other, got[:1]); err != nil || time.Since(begun) < l.Delay {
				t.Errorf("the first byte after %s, %v", time.Since(begun), err)
			}
			if _, err := io.ReadFull(other, got[1:]); err != nil || !bytes.Equal(got, want) {
				t.Errorf("other bytes: %v", err)
			}
			if took := time.Since(begun); took < l.Delay || took > l.Delay+l.Jitter {
				t.Errorf("the last byte after %s", took)
			}
		})
	}
}

// TestConnCut: nothing passes; writes fill what may be under way and then wait
// for their deadline, reads for theirs; and nothing is lost when it is healed.
func TestConnCut(t *testing.T) {
	onPipe(t, func(t *testing.T, f *Links, c *faultyConn, other net.Conn) {
		cut := []Link{{Peer: far, Cut: true}}
		var got bytes.Buffer
		arrived := beside(func() { _, _ = io.Copy(&got, other) })
		f.Set(cut, 0)
		want := random(maxInFlight + 100_000)
		if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		n, err := c.Write(want)
		if !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begun) != time.Minute || n < maxInFlight ||
			n > maxInFlight+piece {
			t.Errorf("%d bytes, %v after %s", n, err, time.Since(begun))
		}
		if held, pieces := testutil.ToFloat64(f.cut), (n+piece-1)/piece; held != float64(pieces) {
			t.Errorf("%v pieces are counted of %d that were written into the cut", held, pieces)
		}
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a read after its deadline: %v", err)
		}
		synctest.Wait()
		if got.Len() != 0 {
			t.Errorf("%d bytes came through", got.Len())
		}
		f.Set(nil, 0)
		if err := c.SetDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write(want[n:]); err != nil {
			t.Errorf("a write after that: %v", err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		arrived()
		if !bytes.Equal(got.Bytes(), want) {
			t.Errorf("%d bytes of %d arrived", got.Len(), len(want))
		}
	})
}

// TestConnCutReads: what comes in during a cut, and the end of the connection,
// is read when it is healed.
func TestConnCutReads(t *testing.T) {
	onPipe(t, func(t *testing.T, f *Links, c *faultyConn, other net.Conn) {
		var got []byte
		var err error
		read := beside(func() { got, err = io.ReadAll(c) })
		synctest.Wait() // it reads from what is below
		f.Set([]Link{{Peer: far, Cut: true}}, 0)
		for _, s := range []string{"into ", "the cut"} {
			sent := beside(func() { _, _ = io.WriteString(other, s) })
			defer sent()
			synctest.Wait()
		}
		if got != nil || testutil.ToFloat64(f.cut) == 0 {
			t.Errorf("read %q", got)
		}
		f.Set(nil, 0)
		synctest.Wait()
		f.Set([]Link{{Peer: far, Cut: true}}, 0)
		_ = other.Close()
		time.Sleep(time.Hour)
		if got != nil || err != nil {
			t.Errorf("the end shows in a cut: %q, %v", got, err)
		}
		f.Set(nil, 0)
		read()
		if string(got) != "into the cut" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	})
}

// TestConnLoss: lost bytes arrive later, and all bytes arrive in order.
func TestConnLoss(t *testing.T) {
	onPipe(t, func(t *testing.T, f *Links, c *faultyConn, other net.Conn) {
		f.Set([]Link{{Peer: far, Loss: 0.05}}, 0)
		want, got := random(1<<20), make([]byte, 1<<20)
		begun := time.Now()
		if _, err := c.Write(want); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(other, got); err != nil || !bytes.Equal(got, want) {
			t.Errorf("other bytes: %v", err)
		}
		if lost := testutil.ToFloat64(f.lost); lost == 0 || time.Since(begun) < retransmit {
			t.Errorf("%v pieces were late, all after %s", lost, time.Since(begun))
		}
		// When all is lost nothing comes, however long one waits.
		f.Set([]Link{{Peer: far, Loss: 1}}, 0)
		if _, err := c.Write(want[:10]); err != nil {
			t.Fatal(err)
		}
		_ = other.SetReadDeadline(time.Now().Add(time.Hour))
		if n, err := other.Read(got); n != 0 || !os.IsTimeout(err) {
			t.Errorf("%d bytes, %v", n, err)
		}
	})
}

// TestConnRate: many connections share the rate.
func TestConnRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewLinks(nil)
		const rate, each = 100_000, 250_000
		f.Set(nil, rate)
		begun := time.Now()
		var ends sync.WaitGroup
		for range 4 {
			near, other := net.Pipe()
			c := f.conn(near, "")
			ends.Go(func() {
				if _, err := io.CopyN(io.Discard, other, each); err != nil {
					t.Error(err)
				}
				_ = other.Close()
				_ = c.Close()
			})
			ends.Go(func() { _, _ = c.Write(make([]byte, each)) })
		}
		ends.Wait()
		if took := time.Since(begun); took < 9500*time.Millisecond || took > 10500*time.Millisecond {
			t.Errorf("1,000,000 bytes at 100,000/s took %s", took)
		}
		f.Close()
	})
}

// TestConnClose: closing the connection or the host ends every waiting call.
func TestConnClose(t *testing.T) {
	for name, end := range map[string]func(f *Links, c *faultyConn){
		"the connection": func(_ *Links, c *faultyConn) { _ = c.Close() },
		"the host":       func(f *Links, _ *faultyConn) { f.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			onPipe(t, func(t *testing.T, f *Links, c *faultyConn, _ net.Conn) {
				f.Set([]Link{{Peer: far, Cut: true}}, 0)
				var writing, reading error
				wrote := beside(func() { _, writing = c.Write(make([]byte, 2*maxInFlight)) })
				read := beside(func() { _, reading = c.Read(make([]byte, 1)) })
				synctest.Wait()
				end(f, c)
				wrote()
				read()
				if !errors.Is(writing, net.ErrClosed) || !errors.Is(reading, net.ErrClosed) {
					t.Errorf("%v, %v", writing, reading)
				}
			})
		})
	}
}

// TestConnDeadline: a deadline that is moved while somebody waits counts as it
// is now, and one that has passed can be taken back.
func TestConnDeadline(t *testing.T) {
	onPipe(t, func(t *testing.T, f *Links, c *faultyConn, other net.Conn) {
		f.Set([]Link{{Peer: far, Cut: true}}, 0)
		for _, at := range []time.Duration{time.Minute, -time.Second, time.Hour} {
			begun := time.Now()
			_ = c.SetReadDeadline(begun.Add(3 * time.Hour))
			var err error
			read := beside(func() { _, err = c.Read(make([]byte, 1)) })
			synctest.Wait()
			_ = c.SetReadDeadline(begun.Add(at))
			read()
			if !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begun) != max(at, 0) {
				t.Errorf("%s: %v after %s", at, err, time.Since(begun))
			}
		}
		_ = c.SetReadDeadline(time.Time{})
		f.Set(nil, 0)
		sent := beside(func() { _, _ = other.Write([]byte("x")) })
		if n, err := c.Read(make([]byte, 1)); n != 1 || err != nil {
			t.Error(err)
		}
		sent()
	})
}

// TestConnOfNobody: a connection without faults is passed through, and costs no
// goroutine and no copy.
func TestConnOfNobody(t *testing.T) {
	f := NewLinks(nil)
	f.Set([]Link{{Peer: "another", Cut: true}}, 0)
	c := f.conn(discard{}, far)
	p := make([]byte, 64<<10)
	if n := testing.AllocsPerRun(100, func() { _, _ = c.Write(p) }); n != 0 {
		t.Errorf("%v allocations in a write", n)
	}
	f.Close()
}

type discard struct{ net.Conn }

func (discard) Write(p []byte) (int, error) { return len(p), nil }
