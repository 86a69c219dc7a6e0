package latch

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestDrain: nobody enters after a drain began, and it waits for those inside.
func TestDrain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var l Latch
		if first, second := l.Enter(), l.Enter(); !first || !second || l.Inside() != 2 || l.Closed() {
			t.Fatal("an open latch does not admit")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if left := l.Drain(ctx); left != 2 {
			t.Errorf("%d are left", left)
		}
		if l.Enter() || !l.Closed() || l.Close() {
			t.Error("a closed latch admits, or closes again")
		}
		var waiting sync.WaitGroup
		var done atomic.Bool
		waiting.Go(func() {
			l.CloseAndWait()
			done.Store(true)
		})
		l.Leave()
		synctest.Wait()
		if done.Load() {
			t.Error("it did not wait for the last one")
		}
		l.Leave()
		waiting.Wait()
		if left := l.Drain(ctx); left != 0 {
			t.Errorf("%d are left", left)
		}
		for range 2 { // it can be opened again
			l.Open()
			if !l.Enter() {
				t.Error("it does not admit again")
			}
			l.Leave()
			if !l.Close() {
				t.Error("it was not open")
			}
			l.CloseAndWait()
			if l.Enter() {
				t.Error("it admits after the wait")
			}
		}
		l.Open()
		if !l.Enter() || l.Drain(ctx) != 1 {
			t.Error("one is inside")
		}
		l.Open() // while one is inside
		if !l.Enter() || l.Inside() != 2 {
			t.Error("two are inside")
		}
		l.Leave()
		l.Leave()
		l.CloseAndWait()
	})
}

// TestRace: whoever was admitted is waited for, whoever came later is not.
func TestRace(t *testing.T) {
	t.Parallel()
	for range 200 {
		var l Latch
		var users sync.WaitGroup
		var inside, after atomic.Int64
		for range 8 {
			users.Go(func() {
				if !l.Enter() {
					return
				}
				inside.Add(1)
				if after.Load() > 0 {
					t.Error("somebody is inside after the wait")
				}
				inside.Add(-1)
				l.Leave()
			})
		}
		l.CloseAndWait()
		after.Store(1)
		if n := inside.Load(); n != 0 {
			t.Errorf("%d are inside", n)
		}
		users.Wait()
	}
}

// TestGo: what was started is waited for, and nothing starts after the close.
func TestGo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var l Latch
		end := make(chan struct{})
		var ended atomic.Bool
		if !l.Go(func() { <-end; ended.Store(true) }) || l.Inside() != 1 {
			t.Fatal("an open latch does not start it")
		}
		l.Close()
		if l.Go(func() { t.Error("a closed latch started it") }) {
			t.Error("a closed latch admits")
		}
		synctest.Wait()
		if ended.Load() {
			t.Error("it ended by itself")
		}
		close(end)
		if l.CloseAndWait(); !ended.Load() {
			t.Error("the wait did not wait for it")
		}
	})
}
