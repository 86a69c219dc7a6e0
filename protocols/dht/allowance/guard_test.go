package allowance

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"allium/internal/env"
	"allium/internal/limits"
	"allium/protocols/status"
)

func TestConfig(t *testing.T) {
	for key, change := range map[string]func(*Config){
		"rate":     func(c *Config) { c.Rate = 0 },
		"inflight": func(c *Config) { c.Inflight = 0 },
	} {
		cfg := DefaultConfig()
		change(&cfg)
		if _, err := New(cfg, Deps{Cores: 1}); status.Of(err) != status.BadRequest ||
			!strings.Contains(err.Error(), "dht.guard."+key+" ") {
			t.Errorf("%s: %v", key, err)
		}
	}
	reg := prometheus.NewRegistry()
	for i, ok := range []bool{true, false} {
		if _, err := New(DefaultConfig(), Deps{Env: env.Env{Metrics: reg}, Cores: 1}); (err == nil) != ok {
			t.Errorf("guard %d on one registry: %v", i+1, err)
		}
	}
}

func TestLimitsAreListed(t *testing.T) {
	g := newTested(t, func(c *Config) { c.Workers = 3 })
	want := map[string]int64{
		"dht.rate": 3000, "dht.inflight": 1024, "dht.bytes": 64 << 20, "dht.peer_rate": 500, "dht.peer_inflight": 64,
		"dht.work": 3, "dht.streams": maxStreams,
	}
	for _, l := range g.limits.Snapshot() {
		if l.Capacity != want[l.Name] || l.Policy == "" || l.Path == "" {
			t.Errorf("%+v, want a capacity of %d", l, want[l.Name])
		}
		delete(want, l.Name)
	}
	if len(want) > 0 {
		t.Errorf("not listed: %v", want)
	}
}

// TestAdmitAtTheCapAndOver fills one limit after the other.
func TestAdmitAtTheCapAndOver(t *testing.T) {
	for _, tc := range []struct {
		limit   string
		kind    kind
		outcome status.Outcome
		change  func(*Config)
		peers   int // the requests come from so many, in turn
		again   time.Duration
	}{
		{"dht.peer_inflight", kindPeerInflight, status.Quota, func(c *Config) { c.PeerInflight = 4 }, 1, 0},
		{"dht.peer_rate", kindPeerRate, status.RateLimit, func(c *Config) { c.PeerRate = 4 },
			1, 250 * time.Millisecond},
		{"dht.inflight", kindInflight, status.Busy, func(c *Config) { c.Inflight = 4 }, 2, 0},
		{"dht.bytes", kindBytes, status.Busy, func(c *Config) { c.Bytes = 400 }, 2, 0},
		{"dht.rate", kindRate, status.RateLimit, func(c *Config) { c.Rate = 4 }, 2, 250 * time.Millisecond},
	} {
		t.Run(tc.limit, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newTested(t, tc.change)
				var held []func()
				ask := func(i int) error {
					release, err := g.Admit(t.Context(), peer.ID(fmt.Sprint(i%tc.peers)), "", 100)
					if err == nil {
						held = append(held, release)
					}
					return err
				}
				for i := range 4 {
					if err := ask(i); err != nil {
						t.Fatalf("request %d of 4: %v", i+1, err)
					}
				}
				wantRefused(t, ask(4), tc.outcome, tc.limit)
				g.wantRejected(t, tc.kind, 1)
				for l, want := range map[string]int64{"dht.inflight": 4, "dht.bytes": 400} {
					if i := g.limit(t, l); i.Current != want {
						t.Errorf("the refused request keeps some of %+v, want %d", i, want)
					}
				}
				for _, release := range held {
					release()
					release() // changes nothing
				}
				g.wantFree(t)
				time.Sleep(tc.again)
				if err := ask(4); err != nil {
					t.Errorf("afterwards: %v", err)
				}
				held[4]()
				g.wantFree(t)
			})
		})
	}
}

func TestAdmitOfAnEndedContext(t *testing.T) {
	g := newTested(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := g.Admit(ctx, "p", "", 1); status.Of(err) != status.Canceled {
		t.Errorf("got %v", err)
	}
	g.wantFree(t)
}

// TestLoudPeerLeavesTheOthersTheirShare: what a peer is refused of its own
// allowance costs nobody else a token or a place.
func TestLoudPeerLeavesTheOthersTheirShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTested(t, func(c *Config) { c.Rate, c.PeerRate, c.Inflight, c.PeerInflight = 100, 10, 20, 5 })
		loud, refused := 0, 0
		for range 10_000 {
			release, err := g.Admit(t.Context(), "loud", "", 50)
			if err != nil {
				refused++
				continue
			}
			loud++
			if loud <= 5 {
				defer release()
				continue
			}
			release()
		}
		if loud != 5 || refused != 9_995 {
			t.Errorf("of the loud peer %d were admitted and %d refused", loud, refused)
		}
		for i := range 70 { // all tokens that are the others', but for the reserve
			release, err := g.Admit(t.Context(), peer.ID(fmt.Sprint(i/7)), "", 50)
			if err != nil {
				t.Fatalf("request %d of the others: %v", i+1, err)
			}
			release()
		}
	})
}

// TestBusyAccountSurvivesEviction: a peer cannot shed its requests in flight by
// sending many others ahead.
func TestBusyAccountSurvivesEviction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTested(t, func(c *Config) { c.PeerInflight, c.PeerRate, c.Rate = 1, 3, 1_000_000 })
		flood := func() {
			for i := range maxAccounts + 1 {
				release, err := g.Admit(t.Context(), peer.ID(fmt.Sprint("other ", i)), "", 1)
				if err != nil {
					t.Fatal(err)
				}
				release()
			}
		}
		release, err := g.Admit(t.Context(), "p", "", 1)
		if err != nil {
			t.Fatal(err)
		}
		flood()
		_, err = g.Admit(t.Context(), "p", "", 1)
		wantRefused(t, err, status.Quota, "dht.peer_inflight")
		release()
		for range 2 { // the account went back among the others with the tokens it had left
			release, err := g.Admit(t.Context(), "p", "", 1)
			if err != nil {
				t.Fatal(err)
			}
			release()
		}
		_, err = g.Admit(t.Context(), "p", "", 1)
		wantRefused(t, err, status.RateLimit, "dht.peer_rate")
		flood()
		if n := g.accounts.recent.Len(); n != maxAccounts {
			t.Errorf("%d accounts remembered", n)
		}
		if g.accounts.recent.Contains("p") {
			t.Error("an idle account is pinned")
		}
		g.wantFree(t)
	})
}

// TestAdmitKeepsItsBooks compares random requests with plain counts.
func TestAdmitKeepsItsBooks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{
			Rate: 1_000_000, Inflight: rapid.IntRange(1, 8).Draw(t, "inflight"),
			Params: Params{
				PeerRate: 1_000_000, Bytes: 1000, Workers: 1,
				PeerInflight: rapid.IntRange(1, 4).Draw(t, "peer inflight"),
			},
		}
		registry := limits.NewRegistry(nil)
		g, err := New(cfg, Deps{Env: env.Env{Limits: registry}, Cores: 1})
		if err != nil {
			t.Fatal(err)
		}
		type request struct {
			p       peer.ID
			bytes   int
			release func()
		}
		var open []request
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			if len(open) > 0 && rapid.Bool().Draw(t, "release") {
				i := rapid.IntRange(0, len(open)-1).Draw(t, "which")
				open[i].release()
				open = append(open[:i], open[i+1:]...)
			} else {
				r := request{
					p:     peer.ID(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "peer")),
					bytes: rapid.IntRange(0, 500).Draw(t, "bytes"),
				}
				mine, bytes := 0, r.bytes
				for _, o := range open {
					bytes += o.bytes
					if o.p == r.p {
						mine++
					}
				}
				want := status.OK
				switch {
				case mine == cfg.PeerInflight:
					want = status.Quota
				case len(open) == cfg.Inflight, bytes > 1000:
					want = status.Busy
				}
				if r.release, err = g.Admit(t.Context(), r.p, "", r.bytes); status.Of(err) != want {
					t.Fatalf("got %v, want %s", err, want)
				}
				if err == nil {
					open = append(open, r)
				}
			}
			bytes, peers := 0, map[peer.ID]bool{}
			for _, o := range open {
				bytes += o.bytes
				peers[o.p] = true
			}
			for _, l := range registry.Snapshot() {
				if l.Name == "dht.inflight" && l.Current != int64(len(open)) || l.Name == "dht.bytes" &&
					l.Current != int64(bytes) {
					t.Fatalf("%+v with %d requests of %d bytes", l, len(open), bytes)
				}
			}
			if len(g.accounts.active) != len(peers) {
				t.Fatalf("%d accounts in use by %d peers", len(g.accounts.active), len(peers))
			}
		}
	})
}

func TestAdmitConcurrently(t *testing.T) {
	g := newTested(t, func(c *Config) { c.PeerInflight, c.Inflight, c.Rate, c.PeerRate = 3, 5, 1_000_000, 1_000_000 })
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 300 {
				release, err := g.Admit(t.Context(), peer.ID(fmt.Sprint((i+j)%3)), "", 10)
				if err == nil {
					release()
				}
			}
		})
	}
	wg.Wait()
	g.wantFree(t)
	if i := g.limit(t, "dht.inflight"); i.Peak > 5 {
		t.Errorf("%+v", i)
	}
}

func TestWorkRunsQueuesAndRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTested(t, func(c *Config) { c.Workers, c.Queue = 2, 3 })
		var held []func()
		for range 2 {
			release, err := g.Work(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, release)
		}
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				release, err := g.Work(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				release()
			})
		}
		synctest.Wait()
		_, err := g.Work(t.Context())
		wantRefused(t, err, status.Busy, "dht.work")
		for _, release := range held {
			release()
		}
		wg.Wait()
		g.wantFree(t)
		g.wantRejected(t, kindWork, 1)
	})
}

func TestWorkEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTested(t, func(c *Config) { c.Workers = 1 })
		release, _ := g.Work(t.Context())
		defer release()
		start := time.Now()
		if _, err := g.Work(t.Context()); status.Of(err) != status.Busy || time.Since(start) != workerTimeout {
			t.Errorf("got %v after %s", err, time.Since(start))
		}
		g.wantRejected(t, kindWork, 1)
		ctx, cancel := context.WithTimeout(t.Context(), workerTimeout/2)
		defer cancel()
		if _, err := g.Work(ctx); status.Of(err) != status.Timeout {
			t.Errorf("got %v", err)
		}
		g.wantRejected(t, kindWork, 2)
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(workerTimeout/2, cancel)
		if _, err := g.Work(ctx); status.Of(err) != status.Canceled {
			t.Errorf("got %v", err)
		}
		g.wantRejected(t, kindWork, 2)
	})
}

// TestWorkRefusesWhatCannotMakeItsDeadline: with one request a second, who has
// 300 ms left need not wait for them to pass.
func TestWorkRefusesWhatCannotMakeItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTested(t, func(c *Config) { c.Workers = 1 })
		for range 5 {
			release, _ := g.Work(t.Context())
			time.Sleep(time.Second)
			release()
		}
		release, _ := g.Work(t.Context())
		defer release()
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		start := time.Now()
		_, err := g.Work(ctx)
		wantRefused(t, err, status.Busy, "dht.work")
		if d := time.Since(start); d != 0 {
			t.Errorf("it waited %s before it refused", d)
		}
	})
}
