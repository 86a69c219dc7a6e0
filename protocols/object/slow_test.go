package object

import (
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"

	"allium/internal/testkit"
	"allium/protocols/b3"
	"allium/protocols/oap"
	"allium/protocols/status"
)

const (
	almost = 4900 * time.Millisecond // a pause that the patience of 5 s allows
	pace   = 8 << 10                 // DefaultConfig's min_rate
)

// haveOne asks for the presence of an object.
var haveOne = `{"op":"have","objs":["` + b3.Root{}.String() + `"]}`

// requestFrame is a whole request of so many bytes at least, header included.
func requestFrame(bytes int) []byte {
	payload := []byte(haveOne)
	payload = append(payload, slices.Repeat([]byte(" "), max(0, bytes-oap.HeaderSize-len(payload)))...)
	f := oap.Frame{Header: oap.Header{Flags: oap.FlagReq | oap.FlagStart | oap.FlagEnd,
		Proto: oap.ProtoObject, CorrID: 1},
		Payload: payload}
	raw, err := EncodeFrame(f)
	if err != nil {
		panic(err)
	}
	return raw
}

// trickle writes pieces of p, a pause before each, until the stream fails.
func trickle(st network.Stream, p []byte, piece int, pause time.Duration) {
	for len(p) > 0 {
		time.Sleep(pause)
		n, err := st.Write(p[:min(piece, len(p))])
		if p = p[n:]; err != nil {
			return
		}
	}
}

// sip reads pieces, a pause before each, until the stream fails, and returns
// how much it got.
func sip(st network.Stream, piece int, pause time.Duration) (got int, err error) {
	for p := make([]byte, piece); err == nil; {
		var n int
		time.Sleep(pause)
		n, err = io.ReadFull(st, p)
		got += n
	}
	return got, err
}

// wasReset fails unless err is the reset of the other side for being slow.
func wasReset(t *testing.T, err error) {
	t.Helper()
	var reset *network.StreamError
	if !errors.As(err, &reset) || !reset.Remote || reset.ErrorCode != codeTimeout {
		t.Errorf("%v, want a reset with %#x", err, codeTimeout)
	}
}

// within fails unless what f does takes a time between least and most.
func within(t *testing.T, least, most time.Duration, f func()) {
	t.Helper()
	begin := time.Now()
	f()
	if took := time.Since(begin); took < least || took > most {
		t.Errorf("took %s, want %s to %s", took, least, most)
	}
}

// TestSlowAskers: a peer that is inside a request keeps its pace or is reset;
// one that is between requests has its idle time.
func TestSlowAskers(t *testing.T) {
	small, large := requestFrame(0), requestFrame(60<<10)
	for _, c := range []struct {
		name string
		cut  bool
		run  func(t *testing.T, a *asker)
	}{
		{"a byte each 4.9 s", true, func(t *testing.T, a *asker) {
			within(t, 2*almost, 3*almost, func() { trickle(a.st, large, 1, almost) })
		}},
		{"a byte each 4.9 s, of a small request", true, func(t *testing.T, a *asker) {
			within(t, 2*almost, 3*almost, func() { trickle(a.st, small, 1, almost) })
		}},
		{"most of it at once, then a byte each 4.9 s", true, func(t *testing.T, a *asker) {
			trickle(a.st, large[:50<<10], 50<<10, 0)
			within(t, almost, 2*almost+time.Second, func() { trickle(a.st, large[50<<10:], 1, almost) })
		}},
		{"half of the rate", true, func(t *testing.T, a *asker) {
			// 5 s of patience, and half a second earned by each second.
			within(t, 9*time.Second, 12*time.Second, func() { trickle(a.st, large, pace/2, time.Second) })
		}},
		{"the rate", false, func(t *testing.T, a *asker) {
			trickle(a.st, large, pace, time.Second)
			if f, _ := a.end(); f.Code != 200 {
				t.Errorf("answered %d %s", f.Code, f.Payload)
			}
		}},
		{"half a request, 4.9 s, the rest", false, func(t *testing.T, a *asker) {
			for range 5 {
				trickle(a.st, small[:20], 20, almost)
				trickle(a.st, small[20:], 1000, almost)
				if f, _ := a.end(); f.Code != 200 {
					t.Errorf("answered %d", f.Code)
				}
			}
		}},
		{"a request begun as the idle time ends", false, func(t *testing.T, a *asker) {
			trickle(a.st, small[:20], 20, 29*time.Second)
			trickle(a.st, small[20:], 1000, almost)
			if f, _ := a.end(); f.Code != 200 {
				t.Errorf("answered %d", f.Code)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPair(t, testkit.Options{}, DefaultConfig())
				a := p.ask(t)
				c.run(t, a)
				want := 0.0
				if c.cut {
					want = 1
					_, err := a.st.Read(make([]byte, 1))
					wasReset(t, err)
				}
				_ = a.st.Reset()
				synctest.Wait()
				idle(t, p.server)
				if n := counter(t, p.server.metrics.timeouts.WithLabelValues("object_read")); n != want {
					t.Errorf("%v slow reads were counted, want %v", n, want)
				}
				if n := counter(t, p.server.metrics.timeouts.WithLabelValues("object_write")); n != 0 {
					t.Errorf("%v slow writes were counted", n)
				}
			})
		})
	}
}

// TestSlowReaders: a peer that does not take what it asked for at the pace is
// reset, and what its answer held is free again.
func TestSlowReaders(t *testing.T) {
	const groups = 10
	narrow := testkit.Options{Window: 64}
	for _, c := range []struct {
		name string
		cut  bool
		opts testkit.Options
		run  func(t *testing.T, a *asker, root b3.Root)
	}{
		{"never reads", true, narrow, func(t *testing.T, a *asker, root b3.Root) {
			a.want(1, getOf(root))
			within(t, 5*time.Second, 6*time.Second, func() {
				for a.st.(*testkit.Stream).Err() == nil {
					time.Sleep(10 * time.Millisecond)
				}
			})
		}},
		{"a byte each 4.9 s", true, narrow, func(t *testing.T, a *asker, root b3.Root) {
			a.want(1, getOf(root))
			within(t, 5*time.Second, 11*time.Second, func() {
				_, err := sip(a.st, 1, almost)
				wasReset(t, err)
			})
		}},
		{"half of the rate", true, testkit.Options{Window: pace}, func(t *testing.T, a *asker, root b3.Root) {
			a.want(1, getOf(root))
			within(t, 9*time.Second, 15*time.Second, func() {
				_, err := sip(a.st, pace/2, time.Second)
				wasReset(t, err)
			})
		}},
		{"one small answer after the other, each late", true, narrow, func(t *testing.T, a *asker, root b3.Root) {
			within(t, 5*time.Second, 11*time.Second, func() {
				var err error
				for err == nil {
					a.want(1, haveOne)
					a.want(2, haveOne) // does not fit beside the first
					_, err = sipN(a.st, 2*(oap.HeaderSize+1), almost)
				}
				wasReset(t, err)
			})
		}},
		{"the rate", false, testkit.Options{Window: pace}, func(t *testing.T, a *asker, root b3.Root) {
			a.want(1, getOf(root))
			_ = a.st.CloseWrite()
			got, err := sip(a.st, pace, time.Second)
			if got < groups*b3.GroupSize || !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%d bytes, %v", got, err)
			}
		}},
		{"small answers, with time between", false, narrow, func(t *testing.T, a *asker, root b3.Root) {
			for range 10 {
				a.want(1, haveOne)
				a.want(2, haveOne)
				if _, err := sipN(a.st, 2*(oap.HeaderSize+1), 3*time.Second); err != nil {
					t.Fatal(err)
				}
				time.Sleep(3 * time.Second)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPair(t, c.opts, DefaultConfig())
				root := p.store.put(testData(groups*b3.GroupSize, 1))
				a := p.ask(t)
				c.run(t, a, root)
				_ = a.st.Reset()
				synctest.Wait()
				idle(t, p.server)
				want := 0.0
				if c.cut {
					want = 1
				}
				if n := counter(t, p.server.metrics.timeouts.WithLabelValues("object_write")); n != want {
					t.Errorf("%v slow writes were counted, want %v", n, want)
				}
			})
		})
	}
}

// sipN reads n bytes after a pause.
func sipN(st network.Stream, n int, pause time.Duration) (int, error) {
	time.Sleep(pause)
	return io.ReadFull(st, make([]byte, n))
}

// TestServeRateIsNotThePeers: the time that a server takes to find its bytes and
// to keep its own rate is not counted against the peer, and a client waits
// for it.
func TestServeRateIsNotThePeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig()
		cfg.MinRate = 1 << 30
		p := newPairAt(t, testkit.Options{}, cfg, 20<<10, 0) // a frame each 3.5 s
		defer p.stop()
		root := p.store.put(testData(3<<20, 1))
		within(t, 140*time.Second, 160*time.Second, func() {
			if err := p.get(t, serverID, root); err != nil {
				t.Error(err)
			}
		})
	})
}

// pausing is a sink that takes its time for each group.
type pausing struct {
	Sink
	pause time.Duration
}

func (s pausing) Item(i int, p b3.Proved) error {
	if !p.IsParent() {
		time.Sleep(s.pause)
	}
	return s.Sink.Item(i, p)
}

// TestPausedSink: a sink that stands still stops the stream. What fits into the
// stream's window is not lost for it; beyond that the server waits as long as
// for any peer.
func TestPausedSink(t *testing.T) {
	for _, c := range []struct {
		name   string
		groups int
		window int
		pause  time.Duration
		want   status.Outcome
	}{
		{"12 s, within the window", 2, 1 << 20, 12 * time.Second, status.OK},
		{"4 s for each group, beyond it", 8, 64 << 10, 4 * time.Second, status.OK},
		{"a minute, beyond it", 8, 64 << 10, time.Minute, status.Upstream},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPair(t, testkit.Options{Window: c.window}, DefaultConfig())
				root := p.store.put(testData(c.groups*b3.GroupSize, 1))
				err := p.client.Get(t.Context(), serverID, GetRequest{Objs: []b3.Root{root}},
					pausing{newCollect(t, root), c.pause})
				if status.Of(err) != c.want {
					t.Errorf("%v, want %s", err, c.want)
				}
			})
		})
	}
}

// TestSlowServers: a server that sends an answer, or takes a request, slower
// than the pace is given up.
func TestSlowServers(t *testing.T) {
	data := testData(2*b3.GroupSize, 1)
	for _, c := range []struct {
		name string
		opts testkit.Options
		most time.Duration
		do   func(st network.Stream, answer []byte)
	}{
		{"an answer, a byte each 4.9 s", testkit.Options{}, 3 * almost, func(st network.Stream, answer []byte) {
			_, _ = oap.NewReader(st, oap.MaxFrame).Next()
			trickle(st, answer, 1, almost)
		}},
		{"a request, a byte each 4.9 s", testkit.Options{Window: 16}, 3 * almost, func(st network.Stream, _ []byte) {
			_, _ = sip(st, 1, almost)
		}},
		{"an answer at half of the rate", testkit.Options{}, 15 * time.Second, func(st network.Stream, answer []byte) {
			_, _ = oap.NewReader(st, oap.MaxFrame).Next()
			trickle(st, answer, pace/2, time.Second)
		}},
		{"an answer at the rate", testkit.Options{}, 0, func(st network.Stream, answer []byte) {
			_, _ = oap.NewReader(st, oap.MaxFrame).Next()
			trickle(st, answer, pace, time.Second)
		}},
		{"the first bytes of each frame after 4.9 s", testkit.Options{}, 0, func(st network.Stream, answer []byte) {
			_, _ = oap.NewReader(st, oap.MaxFrame).Next()
			for len(answer) > 0 {
				n := int(binary.BigEndian.Uint32(answer))
				trickle(st, answer[:10], 10, almost)
				trickle(st, answer[10:n], n, time.Second)
				answer = answer[n:]
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPair(t, c.opts, DefaultConfig())
				root := p.store.put(data)
				var answer []byte
				for _, f := range honest(t, 1, nil, false, data) {
					raw, err := EncodeFrame(f)
					if err != nil {
						t.Fatal(err)
					}
					answer = append(answer, raw...)
				}
				p.net.Host(serverID).SetStreamHandler(ProtocolID, func(st network.Stream) {
					c.do(st, answer)
					_, _ = st.Read(make([]byte, 1)) // until the client is done with the stream
				})
				begin := time.Now()
				err := p.get(t, serverID, root)
				slow := counter(t, p.client.metrics.timeouts.WithLabelValues("object_ask"))
				switch took := time.Since(begin); {
				case c.most == 0:
					if err != nil || slow != 0 {
						t.Errorf("%v, %v counted", err, slow)
					}
				case status.Of(err) != status.Timeout || slow != 1 || took > c.most:
					t.Errorf("%v after %s, %v counted", err, took, slow)
				}
			})
		})
	}
}
