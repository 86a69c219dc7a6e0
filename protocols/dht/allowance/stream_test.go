package allowance

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"allium/internal/testkit"
)

func TestMessagesPass(t *testing.T) {
	for name, o := range map[string]testkit.Options{
		"in one segment": {}, "a byte at a time": {MaxRead: 1},
		"with latency": {Latency: 40 * time.Millisecond, MaxRead: 7},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := serveTested(t, o, nil, echo)
				s := srv.open(t, "asker")
				var sent []byte
				for _, n := range []int{1, 40, 0, 127, 128, smallMessage - 2, smallMessage - 1,
					smallMessage, 5000, maxMessage, 3} {
					sent = append(sent, frame(bytes.Repeat([]byte{byte(n)}, n))...)
				}
				if _, err := s.Write(sent); err != nil {
					t.Fatal(err)
				}
				_ = s.CloseWrite()
				got, err := io.ReadAll(s)
				if err != nil || !bytes.Equal(got, sent) {
					t.Fatalf("%d bytes of %d came back, %v", len(got), len(sent), err)
				}
			})
		})
	}
}

// TestReadStaysWithinAMessage: what a handler buffers ahead of a message would
// not have been admitted.
func TestReadStaysWithinAMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := serveTested(t, testkit.Options{}, nil, func(s network.Stream) {
			for _, want := range []int{4, 1, 6} {
				if n, err := s.Read(make([]byte, 100)); n != want || err != nil {
					t.Errorf("read %d bytes, %v; want %d", n, err, want)
				}
			}
			_ = s.Close()
		})
		s := srv.open(t, "asker")
		_, _ = s.Write(append(append(frame([]byte("abc")), frame(nil)...), frame([]byte("defgh"))...))
		synctest.Wait()
	})
}

func TestRefusedMessagesResetWithACode(t *testing.T) {
	hold := func(p peer.ID) func(*served) (func(), error) {
		return func(srv *served) (func(), error) { return srv.Admit(context.Background(), p, "", 500) }
	}
	work := func(srv *served) (func(), error) { return srv.Work(context.Background()) }
	small := frame([]byte("hello"))
	for name, tc := range map[string]struct {
		change func(*Config)
		before func(*served) (func(), error) // takes what the message would need
		send   []byte
		code   network.StreamErrorCode
		kind   kind
		after  time.Duration
	}{
		"too long": {nil, nil, frame(make([]byte, maxMessage+1)), network.StreamProtocolViolation, kindMessage, 0},
		"far too long": {
			nil, nil, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},
			network.StreamProtocolViolation, kindMessage, 0,
		},
		"a length overflows": {nil, nil, bytes.Repeat([]byte{0xff},
			9), network.StreamProtocolViolation, kindMessage, 0},
		"a length is padded": {nil, nil, []byte{0x81, 0x00, 'x'}, network.StreamProtocolViolation, kindMessage, 0},
		"peer's rate": {
			func(c *Config) { c.PeerRate = 1 }, hold("asker"), small, network.StreamRateLimited, kindPeerRate, 0,
		},
		"rate": {func(c *Config) { c.Rate = 1 }, hold("other"), small, network.StreamRateLimited, kindRate, 0},
		"peer's in flight": {
			func(c *Config) { c.PeerInflight = 1 }, hold("asker"), small, network.StreamResourceLimitExceeded,
			kindPeerInflight, 0,
		},
		"in flight": {
			func(c *Config) { c.Inflight = 1 }, hold("other"), small,
			network.StreamResourceLimitExceeded, kindInflight, 0,
		},
		"bytes": {
			func(c *Config) { c.Bytes = 505 }, hold("other"), small, network.StreamResourceLimitExceeded, kindBytes, 0,
		},
		"longer than bytes": {
			func(c *Config) { c.Bytes = 5 }, nil, small, network.StreamResourceLimitExceeded, kindBytes, 0,
		},
		"no worker, no queue": {
			func(c *Config) { c.Workers, c.Queue = 1, 0 }, work, small,
			network.StreamResourceLimitExceeded, kindWork, 0,
		},
		"no worker in time": {
			func(c *Config) { c.Workers = 1 }, work, small,
			network.StreamResourceLimitExceeded, kindWork, workerTimeout,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := serveTested(t, testkit.Options{}, tc.change, func(s network.Stream) {
					if msg, err := readFrame(s); err == nil {
						t.Errorf("the handler was given %d bytes", len(msg))
					}
					_ = s.Reset() // as kad-dht does; the code stands
				})
				var before []int64
				release := func() {}
				if tc.before != nil {
					var err error
					if release, err = tc.before(srv); err != nil {
						t.Fatal(err)
					}
				}
				for _, l := range srv.limits.Snapshot() {
					before = append(before, l.Current)
				}
				s := srv.open(t, "asker")
				start := time.Now()
				_, _ = s.Write(tc.send)
				wantReset(t, s, tc.code)
				if d := time.Since(start); d != tc.after {
					t.Errorf("after %s, want %s", d, tc.after)
				}
				srv.wantRejected(t, tc.kind, 1)
				synctest.Wait()
				for i, l := range srv.limits.Snapshot() {
					if l.Current != before[i] {
						t.Errorf("the refused message keeps some of %+v", l)
					}
				}
				release()
			})
		})
	}
}

// TestTooLongIsRefusedBeforeAnythingIsTaken: a length costs its sender's stream
// and the guard nothing.
func TestTooLongIsRefusedBeforeAnythingIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := serveTested(t, testkit.Options{}, nil, echo)
		s := srv.open(t, "asker")
		_, _ = s.Write(frame(make([]byte, maxMessage+1))[:3]) // the length alone
		wantReset(t, s, network.StreamProtocolViolation)
		if b, i := srv.limit(t, "dht.bytes"), srv.limit(t, "dht.inflight"); b.Peak != 0 || i.Peak != 0 {
			t.Errorf("taken: %+v, %+v", b, i)
		}
	})
}

func TestStalledMessageIsReset(t *testing.T) {
	for name, part := range map[string][]byte{
		"within the length": {0xff}, "after the length": {5}, "within the message": frame([]byte("hello"))[:4],
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := serveTested(t, testkit.Options{}, func(c *Config) { c.Workers, c.Queue = 1, 0 }, echo)
				s := srv.open(t, "asker")
				_, _ = s.Write(frame([]byte("first")))
				if _, err := readFrame(s); err != nil {
					t.Fatal(err)
				}
				time.Sleep(30 * time.Second) // an idle stream is not the guard's matter
				start := time.Now()
				_, _ = s.Write(part)
				synctest.Wait()
				if i := srv.limit(t, "dht.work"); i.Current != 0 {
					t.Error("a worker waits for bytes")
				}
				wantReset(t, s, network.StreamGarbageCollected)
				if d := time.Since(start); d != ioTimeout {
					t.Errorf("after %s", d)
				}
				if n := testutil.ToFloat64(srv.m.timeouts.WithLabelValues("dht_read")); n != 1 {
					t.Errorf("counted %v times", n)
				}
			})
		})
	}
}

// TestTrickleDoesNotExtendTheTime: the 5 s are for the whole message, its
// length included.
func TestTrickleDoesNotExtendTheTime(t *testing.T) {
	for name, in := range map[string][]byte{
		"message": frame([]byte("hello world")), "length": bytes.Repeat([]byte{0xff}, 8),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := serveTested(t, testkit.Options{}, nil, echo)
				s := srv.open(t, "asker")
				start := time.Now()
				for _, b := range in {
					if _, err := s.Write([]byte{b}); err != nil {
						break
					}
					time.Sleep(time.Second)
				}
				wantReset(t, s, network.StreamGarbageCollected)
				if d := time.Since(start); d > ioTimeout+time.Second {
					t.Errorf("after %s", d)
				}
			})
		})
	}
}

// TestDeadlineOfOneMessageIsNotTheNexts: an idle stream lives on after a
// message was read, and after an answer was written.
func TestDeadlineOfOneMessageIsNotTheNexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := serveTested(t, testkit.Options{}, nil, echoAfter(3*time.Second))
		s := srv.open(t, "asker")
		for range 3 {
			_, _ = s.Write(frame([]byte("hello")))
			if msg, err := readFrame(s); err != nil || string(msg) != "hello" {
				t.Fatalf("%q, %v", msg, err)
			}
			time.Sleep(2 * ioTimeout)
		}
	})
}

// TestAnswerThatNobodyReadsIsReset, and meanwhile holds no worker.
func TestAnswerThatNobodyReadsIsReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := serveTested(
			t,
			testkit.Options{Window: 64},
			func(c *Config) { c.Workers, c.Queue = 1, 0 },
			func(s network.Stream) {
				if _, err := readFrame(s); err != nil {
					t.Error(err)
				}
				for range 3 { // an answer in several writes has one time
					_, err := s.Write(make([]byte, 50))
					time.Sleep(time.Second)
					if err != nil {
						break
					}
				}
				_ = s.Reset()
			},
		)
		s := srv.open(t, "asker")
		start := time.Now()
		_, _ = s.Write(frame([]byte("hello")))
		time.Sleep(2 * time.Second)
		if w, i := srv.limit(t, "dht.work"), srv.limit(t, "dht.inflight"); w.Current != 0 || i.Current != 1 {
			t.Errorf("while the answer is stuck: %+v, %+v", w, i)
		}
		time.Sleep(ioTimeout - 2*time.Second)
		synctest.Wait()
		wantReset(t, s, network.StreamGarbageCollected)
		if d := time.Since(start); d != ioTimeout {
			t.Errorf("after %s", d)
		}
		if n := testutil.ToFloat64(srv.m.timeouts.WithLabelValues("dht_write")); n != 1 {
			t.Errorf("counted %v times", n)
		}
	})
}

// TestEveryWayOutGivesBackOnce: with one place of each kind, what is not given
// back refuses the next, and what is given back twice shows as less than none.
func TestEveryWayOutGivesBackOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		handle network.StreamHandler
		ask    func(network.Stream)
	}{
		"reads on":    {echo, func(s network.Stream) { _ = s.CloseWrite() }},
		"peer resets": {echoAfter(time.Second), func(s network.Stream) { _ = s.Reset() }},
		"peer resets halfway": {
			echo, func(s network.Stream) { _, _ = s.Write([]byte{9, 'x'}); synctest.Wait(); _ = s.Reset() },
		},
		"peer ends halfway": {echo, func(s network.Stream) { _, _ = s.Write([]byte{9, 'x'}); _ = s.CloseWrite() }},
		"panics":            {func(s network.Stream) { _, _ = readFrame(s); panic("bug") }, func(network.Stream) {}},
		"reads half": {
			func(s network.Stream) { _, _ = s.Read(make([]byte, 2)); _ = s.Close() }, func(network.Stream) {},
		},
		"closes, then resets": {
			func(s network.Stream) { _, _ = readFrame(s); _ = s.Close(); _ = s.Reset() }, func(network.Stream) {},
		},
		"returns": {func(s network.Stream) { _, _ = readFrame(s) }, func(s network.Stream) { _ = s.Reset() }},
		"resets elsewhere": {func(s network.Stream) {
			stop := time.AfterFunc(time.Second, func() { _ = s.Reset() }) // kad-dht's idle timer
			defer stop.Stop()
			echo(s)
		}, func(network.Stream) {}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := serveTested(t, testkit.Options{}, func(c *Config) {
					c.PeerInflight, c.Inflight, c.Bytes, c.Workers, c.Queue = 1, 1, 100, 1, 0
				}, tc.handle)
				for range 3 {
					s := srv.open(t, "asker")
					_, _ = s.Write(frame([]byte("hello")))
					synctest.Wait()
					tc.ask(s)
					time.Sleep(2 * time.Second)
					srv.wantFree(t)
				}
				for _, l := range srv.limits.Snapshot() {
					if l.Rejected != 0 {
						t.Errorf("%+v", l)
					}
				}
			})
		})
	}
}

func TestPanicCostsItsStreamAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := serveTested(t, testkit.Options{}, nil, func(s network.Stream) {
			if msg, _ := readFrame(s); string(msg) == "bug" {
				panic("bug")
			}
			echo(s)
		})
		s := srv.open(t, "asker")
		_, _ = s.Write(frame([]byte("bug")))
		wantReset(t, s, network.StreamNoError)
		if n := testutil.ToFloat64(srv.m.panics); n != 1 {
			t.Errorf("counted %v times", n)
		}
		s = srv.open(t, "asker")
		_, _ = s.Write(append(frame([]byte("first")), frame([]byte("hello"))...))
		if msg, err := readFrame(s); err != nil || string(msg) != "hello" {
			t.Errorf("%q, %v", msg, err)
		}
	})
}

// TestMessagesOfOnePeerShareItsAllowance: many streams give no more.
func TestMessagesOfOnePeerShareItsAllowance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := serveTested(t, testkit.Options{}, func(c *Config) { c.PeerRate = 5 }, echo)
		var answered strings.Builder
		for i := range 10 {
			s := srv.open(t, "loud")
			_, _ = s.Write(frame([]byte{byte('a' + i)}))
			msg, err := readFrame(s)
			answered.Write(msg)
			var se *network.StreamError
			if i >= 5 && (!errors.As(err, &se) || se.ErrorCode != network.StreamRateLimited) {
				t.Errorf("stream %d: %v", i, err)
			}
		}
		if answered.String() != "abcde" {
			t.Errorf("answered %s", &answered)
		}
		s := srv.open(t, "quiet")
		_, _ = s.Write(frame([]byte("hello")))
		if msg, err := readFrame(s); err != nil || string(msg) != "hello" {
			t.Errorf("the quiet peer got %q, %v", msg, err)
		}
	})
}

func TestStreamsAtTheCapAndOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := serveTested(t, testkit.Options{}, nil, echo)
		for range maxStreams {
			srv.open(t, "asker")
		}
		synctest.Wait()
		if n := testutil.ToFloat64(srv.m.streams); n != maxStreams {
			t.Errorf("%v streams in service", n)
		}
		wantReset(t, srv.open(t, "asker"), network.StreamResourceLimitExceeded)
		srv.wantRejected(t, kindStreams, 1)
	})
}

func TestOtherProtocolsPassThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := serveTested(t, testkit.Options{}, nil, echo)
		srv.Host(testHost{h: srv.net.Host("server")}, "/kad",
			maxMessage).SetStreamHandler("/other", func(s network.Stream) {
			if _, ok := s.(*stream); ok {
				t.Error("guarded")
			}
			_ = s.Close()
		})
		s, err := srv.net.Host("asker").NewStream(t.Context(), "server", "/other")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(s); err != nil {
			t.Error(err)
		}
	})
}
