package dht

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"allium/internal/cores"
	"allium/internal/env"
	"allium/internal/limits"
	"allium/internal/testkit"
	"allium/protocols/b3"
	"allium/protocols/dht/allowance"
	"allium/protocols/dht/dialback"
	"allium/protocols/dht/messages"
	"allium/protocols/dht/namestore"
	"allium/protocols/name"
	"allium/protocols/status"
)

// filter denies an object and a name until it is lifted.
type filter struct {
	root   b3.Root
	name   name.Name
	lifted atomic.Bool
}

func (f *filter) Object(root b3.Root) error { return f.denial(root == f.root) }

func (f *filter) Name(n name.Name) error { return f.denial(n == f.name) }

func (f *filter) denial(listed bool) error {
	if listed && !f.lifted.Load() {
		return status.Errorf(status.Denied, "it is denied")
	}
	return nil
}

// bench is a server and an asker on an in-memory network.
type bench struct {
	net    *testkit.Network
	server *server
	at     peer.ID // the server
	me     identity
	ask    *providerClient
	stop   func()
}

func newBench(t *testing.T, cfg allowance.Config) *bench {
	t.Helper()
	m, err := newMetrics(nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	g, err := allowance.New(cfg, allowance.Deps{Cores: 2})
	if err != nil {
		t.Fatal(err)
	}
	var registry *limits.Registry
	b := &bench{
		net: testkit.NewNetwork(testkit.Options{Latency: 10 * time.Millisecond}),
		at:  newIdentity(t).id,
		me:  newIdentity(t),
	}
	store := newProviderStore(20, 100, 100)
	back, err := dialback.New(dialback.Deps{Env: env.Env{Now: time.Now}})
	if err != nil {
		t.Fatal(err)
	}
	b.server = &server{
		held: held{
			store: store, names: namestore.NewStore(namestore.DefaultConfig(), func() bool { return true }),
			verify: &verifier{now: time.Now, gate: registry.NewGate(limits.Spec{Name: "v"}, 2, 2)},
		},
		dialback: back,
		nearest:  func([]byte, network.Conn) []peer.AddrInfo { return nil },
		guard:    g, filter: &filter{}, m: m, log: slog.New(slog.DiscardHandler), ctx: ctx,
	}
	b.net.Host(b.at).SetStreamHandler(ProviderID, b.server.handle)
	b.ask = &providerClient{rpc: &rpcClient{
		host: b.net.Host(
			b.me.id,
		), timeout: 1500 * time.Millisecond, table: &tableLog{}, connected: func(peer.ID) bool { return true },
	}, m: m}
	b.stop = func() {
		cancel()
		b.server.close()
		b.net.Close()
	}
	return b
}

func TestPutAndGet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, allowance.DefaultConfig())
		defer b.stop()
		closer := newIdentity(t)
		b.server.nearest = func(key []byte, asking network.Conn) []peer.AddrInfo {
			if !bytes.Equal(key, root("x").Multihash()) || asking.RemotePeer() != b.me.id {
				t.Errorf("nearest(%x, %s)", key, asking.RemotePeer())
			}
			return []peer.AddrInfo{{ID: closer.id, Addrs: closer.peerRecord().Addrs}}
		}
		rec := b.me.seal(t, root("x"), 7, time.Now().Add(time.Hour))
		if err := b.ask.put(t.Context(), b.at, rec); err != nil {
			t.Fatal(err)
		}
		r, err := b.ask.get(t.Context(), b.at, root("x"))
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Providers) != 1 || !bytes.Equal(r.Providers[0].Envelope, rec.Envelope) ||
			!bytes.Equal(r.Providers[0].PeerRecord, rec.PeerRecord) {
			t.Errorf("the record came back as %+v", r.Providers)
		}
		if c := r.CloserPeers(); len(c) != 1 || c[0].ID != closer.id {
			t.Errorf("closer is %v", c)
		}
	})
}

// TestDeniedName: nobody is told the record of a name that is denied. It is stored nevertheless, for
// the day the denial ends.
func TestDeniedName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, allowance.DefaultConfig())
		defer b.stop()
		rec := b.me.nameRecord(t, "blog", 1, "one")
		f := &filter{name: rec.Name}
		b.server.filter = f
		if err := b.ask.putName(t.Context(), b.at, rec); err != nil {
			t.Fatal(err)
		}
		for _, want := range []int{0, 1} {
			r, err := b.ask.getName(t.Context(), b.at, rec.Name.Digest())
			if err != nil || len(r.Providers) != want {
				t.Errorf("%d records, not %d: %v", len(r.Providers), want, err)
			}
			f.lifted.Store(true)
		}
	})
}

// TestDenied: nobody is told who has what is denied, this node included. Closer
// peers are told as ever, and so is what is known once it is denied no more.
func TestDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, allowance.DefaultConfig())
		defer b.stop()
		f := &filter{root: root("x")}
		b.server.filter = f
		closer, self := newIdentity(t), newIdentity(t)
		b.server.nearest = func([]byte, network.Conn) []peer.AddrInfo {
			return []peer.AddrInfo{{ID: closer.id, Addrs: closer.peerRecord().Addrs}}
		}
		b.server.self = self.id
		b.server.ownRecord = func(_ context.Context, r b3.Root) (messages.Sealed, error) {
			return self.seal(t, r, 1, time.Now().Add(time.Hour)), nil
		}
		for _, key := range []string{"x", "y"} {
			if err := b.ask.put(t.Context(), b.at, b.me.seal(t, root(key), 1, time.Now().Add(time.Hour))); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range []struct {
			key    string
			lifted bool
			want   int
		}{{"x", false, 0}, {"y", false, 2}, {"x", true, 2}} {
			f.lifted.Store(c.lifted)
			r, err := b.ask.get(t.Context(), b.at, root(c.key))
			if err != nil || len(r.Providers) != c.want || len(r.CloserPeers()) != 1 {
				t.Errorf("%s, lifted %t: %d providers, %d closer peers, %v",
					c.key, c.lifted, len(r.Providers), len(r.CloserPeers()), err)
			}
		}
	})
}

// TestPutRefusals: the reason reaches the one who asked, is counted, and
// nothing is stored.
func TestPutRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, allowance.DefaultConfig())
		defer b.stop()
		other := newIdentity(t)
		hour := time.Now().Add(time.Hour)
		good := b.me.seal(t, root("x"), 1, hour)
		forged := good
		forged.Envelope = bytes.Clone(good.Envelope)
		forged.Envelope[len(forged.Envelope)-1] ^= 1
		misplaced := b.me.seal(t, root("y"), 1, hour)
		misplaced.Root = root("x")
		for want, rec := range map[messages.Refusal]messages.Sealed{
			messages.BadSignature: forged,
			messages.WrongKey:     misplaced,
			messages.WrongSender:  other.seal(t, root("x"), 1, hour),
			messages.Expired:      b.me.seal(t, root("x"), 1, time.Now().Add(-time.Hour)),
			messages.FutureDated:  b.me.seal(t, root("x"), 1, time.Now().Add(25*time.Hour)),
			messages.Oversize: {
				Record: good.Record, Envelope: make([]byte, messages.MaxEnvelope+1), PeerRecord: good.PeerRecord,
			},
			messages.Unsigned: {Record: good.Record, Envelope: []byte("x"), PeerRecord: good.PeerRecord},
		} {
			err := b.ask.put(t.Context(), b.at, rec)
			if messages.RefusalOf(err) != want {
				t.Errorf("got %v, want %s", err, want)
			}
			if n := testutil.ToFloat64(b.server.m.rejected.WithLabelValues(string(want))); n != 1 {
				t.Errorf("%s is counted %v times", want, n)
			}
		}
		if b.server.store.len() != 0 {
			t.Fatal("a refused record was stored")
		}
		if err := b.ask.put(t.Context(), b.at, good); err != nil {
			t.Fatal(err)
		}
		if err := b.ask.put(t.Context(), b.at,
			b.me.seal(t, root("x"), 0, hour)); messages.RefusalOf(err) != messages.Stale {
			t.Errorf("an older record: %v", err)
		}
	})
}

// TestSilentPeer: a call costs its timeout and no more, and a cancelled one
// nothing.
func TestSilentPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, allowance.DefaultConfig())
		defer b.stop()
		silent := newIdentity(t).id
		resets := make(chan error, 2)
		b.net.Host(silent).SetStreamHandler(ProviderID, func(s network.Stream) {
			for {
				if _, err := s.Read(make([]byte, 4096)); err != nil && strings.Contains(err.Error(), "reset") {
					resets <- err
					return
				}
				time.Sleep(time.Millisecond)
			}
		})
		start := time.Now()
		_, err := b.ask.get(t.Context(), silent, root("x"))
		if status.Of(err) != status.Timeout || time.Since(start) != 1500*time.Millisecond {
			t.Errorf("%v after %s", err, time.Since(start))
		}
		<-resets

		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(40*time.Millisecond, cancel)
		start = time.Now()
		_, err = b.ask.get(ctx, silent, root("x"))
		if status.Of(err) != status.Canceled || time.Since(start) != 40*time.Millisecond {
			t.Errorf("%v after %s", err, time.Since(start))
		}
		<-resets // the other side was told
	})
}

// TestUnreachable: no connection and no protocol are the peer's failure.
func TestUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, allowance.DefaultConfig())
		defer b.stop()
		if _, err := b.ask.get(t.Context(), "nobody", root("x")); status.Of(err) != status.Upstream {
			t.Errorf("got %v", err)
		}
	})
}

// TestLyingPeer: answers that are no answers are upstream errors.
func TestLyingPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, allowance.DefaultConfig())
		defer b.stop()
		for name, tc := range map[string]struct {
			bytes []byte
			want  status.Outcome
		}{
			"nothing":  {nil, status.Upstream},
			"short":    {[]byte{10, 1, 2}, status.Upstream},
			"too long": {[]byte{0xff, 0xff, 0x7f}, status.FrameOversize},
			"garbage":  {[]byte{3, 1, 2, 3}, status.Upstream},
		} {
			liar := newIdentity(t).id
			b.net.Host(liar).SetStreamHandler(ProviderID, func(s network.Stream) {
				_, _ = s.Write(tc.bytes)
				_ = s.Close()
			})
			if _, err := b.ask.get(t.Context(), liar, root("x")); status.Of(err) != tc.want {
				t.Errorf("%s: %v (%s)", name, err, status.Of(err))
			}
		}
	})
}

// TestHangingAsker: who opens a stream and does not go on is cut off after 5 s,
// and takes no place from anybody until then.
func TestHangingAsker(t *testing.T) {
	for name, sends := range map[string][]byte{"nothing": nil, "half a message": {40, 1, 2, 3}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := allowance.DefaultConfig()
				cfg.Inflight = 1
				b := newBench(t, cfg)
				defer b.stop()
				start := time.Now()
				s, err := b.net.Host("hanging").NewStream(t.Context(), b.at, ProviderID)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := s.Write(sends); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if _, err := b.ask.get(t.Context(), b.at, root("x")); err != nil {
					t.Errorf("a second request: %v", err)
				}
				if _, err := s.Read(make([]byte, 1)); err == nil {
					t.Error("it was answered")
				}
				if took := time.Since(start).Round(100 * time.Millisecond); took != serveTimeout {
					t.Errorf("it was cut off after %s", took)
				}
			})
		})
	}
}

// TestLargeRequest is refused by its length, before it is read.
func TestLargeRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, allowance.DefaultConfig())
		defer b.stop()
		s, err := b.net.Host("large").NewStream(t.Context(), b.at, ProviderID)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Write([]byte{0xff, 0xff, 0xff, 0x7f}); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if _, err := s.Read(make([]byte, 1)); err == nil || time.Since(start) > time.Second {
			t.Errorf("%v after %s", err, time.Since(start))
		}
	})
}

// TestServerLimits: what there is no room for is told so, with its outcome.
func TestServerLimits(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*allowance.Config)
		want   status.Outcome
	}{
		"rate":          {func(c *allowance.Config) { c.Rate = 2 }, status.RateLimit},
		"peer rate":     {func(c *allowance.Config) { c.PeerRate = 2 }, status.RateLimit},
		"inflight":      {func(c *allowance.Config) { c.Inflight = 2 }, status.Busy},
		"peer inflight": {func(c *allowance.Config) { c.PeerInflight = 2 }, status.Quota},
		"queue":         {func(c *allowance.Config) { c.Workers, c.Queue = 1, 1 }, status.Busy},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := allowance.DefaultConfig()
				tc.change(&cfg)
				b := newBench(t, cfg)
				defer b.stop()
				b.server.nearest =
					func([]byte, network.Conn) []peer.AddrInfo { time.Sleep(60 * time.Millisecond); return nil }
				outcomes := make(chan status.Outcome, 3) // bound: requests
				for range 3 {
					go func() {
						_, err := b.ask.get(t.Context(), b.at, root("x"))
						outcomes <- status.Of(err)
					}()
				}
				got := map[status.Outcome]int{}
				for range 3 {
					got[<-outcomes]++
				}
				if got[status.OK] != 2 || got[tc.want] != 1 {
					t.Errorf("got %v", got)
				}
				time.Sleep(time.Second)
				if _, err := b.ask.get(t.Context(), b.at, root("x")); err != nil {
					t.Errorf("a second later: %v", err)
				}
			})
		})
	}
}

// TestServerPanic costs one request.
func TestServerPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, allowance.DefaultConfig())
		defer b.stop()
		bug := true
		b.server.nearest = func([]byte, network.Conn) []peer.AddrInfo {
			if bug {
				bug = false
				panic("bug")
			}
			return nil
		}
		if _, err := b.ask.get(t.Context(), b.at, root("x")); status.Of(err) != status.Internal {
			t.Errorf("got %v", err)
		}
		if _, err := b.ask.get(t.Context(), b.at, root("x")); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
}

// TestServerStops: a stream in service ends with the server, a new one is
// turned away.
func TestServerStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, allowance.DefaultConfig())
		s, err := b.net.Host("hanging").NewStream(t.Context(), b.at, ProviderID)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		defer b.net.Close()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		b.server.ctx = ctx // for streams to come
		_ = s.Reset()
		b.server.close()
		if _, err := b.ask.get(t.Context(), b.at, root("x")); err == nil {
			t.Error("answered after close")
		}
		b.stop()
	})
}

// TestVerifierIsBounded: with its places taken and its line full, a record is
// not verified but busy.
func TestVerifierIsBounded(t *testing.T) {
	var registry *limits.Registry
	v := &verifier{now: time.Now, gate: registry.NewGate(limits.Spec{Name: "v"}, 1, 0)}
	release, err := v.gate.TryAcquire()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.open(t.Context(), nil, nil, root("x")); status.Of(err) != status.Busy {
		t.Errorf("got %v", err)
	}
	release()
	if _, err := v.open(t.Context(), nil, nil, root("x")); messages.RefusalOf(err) != messages.Unsigned {
		t.Errorf("got %v", err)
	}
}

// TestVerifierWaitsForACore: without a core a check ends with its deadline, and keeps no place. Stored records need no
// place, and so take none from those that somebody waits for.
func TestVerifierWaitsForACore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var registry *limits.Registry
		pool := cores.New(1)
		v := &verifier{now: time.Now, cores: pool, gate: registry.NewGate(limits.Spec{Name: "v"}, 1, 0)}
		pool.Enter(cores.Foreground)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := v.open(ctx, nil, nil, root("x")); status.Of(err) != status.Timeout {
			t.Errorf("got %v", err)
		}
		if _, err := v.openName(ctx, nil); status.Of(err) != status.Timeout {
			t.Errorf("got %v", err)
		}
		pool.Leave(cores.Foreground)
		release, err := v.gate.TryAcquire()
		if err != nil {
			t.Fatal(err)
		}
		defer release()
		if _, err := v.reopen(t.Context(), nil, nil, root("x")); messages.RefusalOf(err) != messages.Unsigned {
			t.Errorf("got %v", err)
		}
		if pool.InUse() != 0 {
			t.Error("a core is taken for ever")
		}
	})
}

// TestMetricsRegister: the names are there and no label is open-ended.
func TestMetricsRegister(t *testing.T) {
	reg := prometheus.NewRegistry()
	if _, err := newMetrics(reg); err != nil {
		t.Fatal(err)
	}
	if _, err := newMetrics(reg); err == nil {
		t.Error("registered twice in one registry")
	}
	m, _ := newMetrics(nil)
	all := testutil.CollectAndCount(m.rejected)
	m.refused(errors.New("not a refusal"))
	m.refused(fmt.Errorf("wrapped: %w", messages.Refuse(messages.Stale, nil)))
	if n := testutil.CollectAndCount(m.rejected); n != all {
		t.Errorf("%d reasons are counted, not %d", n, all)
	}
}
