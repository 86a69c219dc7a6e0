package allowance

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/testkit"
	"allium/protocols/status"
)

func TestStopEndsStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := serveTested(t, testkit.Options{Window: 64}, nil, echoAfter(100*time.Millisecond))
		idle, half, busy := srv.open(t, "a"), srv.open(t, "b"), srv.open(t, "c")
		_, _ = half.Write(frame([]byte("hello"))[:3])
		_, _ = busy.Write(append(frame([]byte("hello")), frame([]byte("again"))...))
		synctest.Wait()
		start := time.Now()
		if err := srv.stop(); err != nil {
			t.Error(err)
		}
		if d := time.Since(start); d != 100*time.Millisecond {
			t.Errorf("it took %s", d)
		}
		wantReset(t, idle, network.StreamShutdown)
		wantReset(t, half, network.StreamShutdown)
		// The message in hand is answered and the stream ends in order.
		if got, err := io.ReadAll(busy); err != nil || !bytes.Equal(got, frame([]byte("hello"))) {
			t.Errorf("%q, %v", got, err)
		}
		wantReset(t, srv.open(t, "d"), network.StreamShutdown)
		synctest.Wait() // its handler gives its place back
		srv.wantFree(t)

		srv.start(t) // a service that is restarted runs its guard again
		s := srv.open(t, "e")
		_, _ = s.Write(frame([]byte("hello")))
		if msg, err := readFrame(s); err != nil || string(msg) != "hello" {
			t.Errorf("after a restart: %q, %v", msg, err)
		}
	})
}

func TestStopDoesNotWaitForAPeerThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := serveTested(t, testkit.Options{Window: 64}, nil, func(s network.Stream) {
			_, _ = readFrame(s)
			_, _ = s.Write(make([]byte, 1000))
			_ = s.Reset()
		})
		s := srv.open(t, "asker")
		_, _ = s.Write(frame([]byte("hello")))
		synctest.Wait()
		start := time.Now()
		if err := srv.stop(); err != nil {
			t.Error(err)
		}
		if d := time.Since(start); d != drainTimeout {
			t.Errorf("it took %s", d)
		}
		wantReset(t, s, network.StreamShutdown)
	})
}

// TestStopEndsTheWaitForAWorker: the message was not begun, so it is not
// finished either.
func TestStopEndsTheWaitForAWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := serveTested(t, testkit.Options{}, func(c *Config) { c.Workers = 1 }, echo)
		release, err := srv.Work(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer release()
		s := srv.open(t, "asker")
		_, _ = s.Write(frame([]byte("hello")))
		synctest.Wait()
		start := time.Now()
		if err := srv.stop(); err != nil || time.Since(start) != 0 {
			t.Errorf("%v after %s", err, time.Since(start))
		}
		wantReset(t, s, network.StreamShutdown)
	})
}

func TestRunIsOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := serveTested(t, testkit.Options{}, nil, echo)
		err := srv.Run(t.Context(), func() { t.Error("ready") })
		if status.Of(err) != status.Conflict {
			t.Errorf("got %v", err)
		}
	})
}

// TestManyStreamsAtOnce runs the whole path from many peers, with stops between.
func TestManyStreamsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := serveTested(
			t,
			testkit.Options{Latency: time.Millisecond},
			func(c *Config) { c.Workers, c.Queue, c.Inflight = 2, 4, 8 },
			echoAfter(time.Millisecond),
		)
		for round := range 3 {
			var wg sync.WaitGroup
			for i := range 20 {
				s := srv.open(t, peer.ID(fmt.Sprint(i%5)))
				wg.Go(func() {
					for range 10 {
						if _, err := s.Write(frame([]byte("hello"))); err != nil {
							return
						}
						if _, err := readFrame(s); err != nil {
							return
						}
					}
					_ = s.Reset()
				})
			}
			if round == 1 {
				time.Sleep(5 * time.Millisecond)
				if err := srv.stop(); err != nil {
					t.Error(err)
				}
				srv.wantFree(t)
				srv.start(t)
			}
			wg.Wait()
			synctest.Wait()
			srv.wantFree(t)
		}
	})
}
