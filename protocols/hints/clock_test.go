package hints

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"allium/internal/env"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// TestNothingIsSignedByAWrongClock: while the clock is known to be wrong nothing
// goes out, not even what was gathered when it became so. As much as the queue
// takes waits and goes out when the clock is right, dated by it; more is refused
// with busy, and is found through the DHT alone.
func TestNothingIsSignedByAWrongClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const queue = 2000
		me := fixedIdentity(t, 1)
		cfg := DefaultConfig()
		cfg.Queue = queue
		var wrong atomic.Bool
		var skew atomic.Int64
		told := map[b3.Root]bool{}
		sent := 0
		s, err := New(cfg, Deps{
			Env:  env.Env{Now: func() time.Time { return time.Now().Add(time.Duration(skew.Load())) }},
			Host: addressed{idleHost{id: me.id}}, Key: me.key, ClockWrong: wrong.Load,
			Publish: func(_ context.Context, data []byte) error {
				if wrong.Load() {
					t.Error("published by a wrong clock")
				}
				a, err := verify(data, time.Now())
				if err != nil {
					t.Errorf("others refuse what was published: %v", err)
					return nil
				}
				sent++
				a.each(func(r b3.Root) { told[r] = true })
				return nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { s.publish(ctx); close(ended) }()
		defer func() { cancel(); <-ended }()

		if err := s.Announce(root(0)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(cfg.Linger / 2)
		wrong.Store(true)
		skew.Store(int64(25 * time.Hour))
		time.Sleep(time.Hour)
		taken := 1
		for i := range 2 * queue {
			err := s.Announce(root(1 + i))
			if err == nil {
				taken++
			} else if status.Of(err) != status.Busy {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Hour)
		if n, _, _ := s.memory.usage(); n != 0 || sent != 0 {
			t.Errorf("by a wrong clock %d announcements were made, %d published", n, sent)
		}
		wrong.Store(false)
		skew.Store(0)
		time.Sleep(time.Minute)
		if taken < queue || len(told) != taken {
			t.Errorf("%d of %d objects were announced when the clock was right; the queue takes %d", len(told), taken,
				queue)
		}
	})
}

// TestNothingIsForgottenByAWrongClock: what has expired stays until the clock is
// known to be right.
func TestNothingIsForgottenByAWrongClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTested(t, fixedIdentity(t, 1))
		var right atomic.Bool
		s.deps.MayExpire = right.Load
		begin := time.Now()
		for i, life := range []time.Duration{time.Hour, 20 * time.Hour} {
			x := fixedIdentity(t, 2+i).announce(t, 1, 1, begin.Add(life), root(i))
			if err := s.keep(x, viaGossip, begin); err != nil {
				t.Fatal(err)
			}
		}
		s.deps.Now = func() time.Time {
			if right.Load() {
				return time.Now()
			}
			return time.Now().Add(25 * time.Hour)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { s.forget(ctx); close(ended) }()
		defer func() { cancel(); <-ended }()
		time.Sleep(2 * time.Hour)
		if n, _, _ := s.memory.usage(); n != 2 {
			t.Errorf("by a wrong clock %d of 2 announcements are left", n)
		}
		right.Store(true)
		time.Sleep(sweepEvery + time.Second)
		if n, _, _ := s.memory.usage(); n != 1 || len(s.Hints(root(1))) != 1 {
			t.Errorf("by a right clock %d announcements are left, want the one that lives", n)
		}
	})
}
