package limits_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"allium/internal/limits"
	"allium/protocols/status"
)

// newFairBudget returns a budget of 100 bytes for which a holder waits one second.
func newFairBudget() *limits.FairBudget[string] {
	return limits.NewFairBudget[string](nil, limits.Spec{Name: "test"}, 100, time.Second)
}

// TestFairBudgetEvictsTheLargest: a key with less than the one with most is served,
// from the largest holder of the key with most.
func TestFairBudgetEvictsTheLargest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newFairBudget()
		var mu sync.Mutex
		evicted := map[string]error{}
		hold := func(key, name string, n int64) *limits.Holder[string] {
			var h *limits.Holder[string]
			h = m.Hold(key, func(err error) {
				mu.Lock()
				evicted[name] = err
				mu.Unlock()
				time.AfterFunc(100*time.Millisecond, h.Close)
			})
			if err := h.Grow(t.Context(), n); err != nil {
				t.Fatal(name, err)
			}
			return h
		}
		a1, a2 := hold("a", "a1", 30), hold("a", "a2", 50)
		b := hold("b", "b", 20)
		c := m.Hold("c", nil)
		if err := c.Grow(t.Context(), 10); err != nil {
			t.Fatal(err)
		}
		if err := evicted["a2"]; len(evicted) != 1 || status.Of(err) != status.Busy {
			t.Errorf("evicted %v, want a2 with busy", evicted)
		}
		if a2.TryGrow(1) || a2.Grow(t.Context(), 1) == nil {
			t.Error("a holder that was evicted takes more")
		}
		if got := m.Used(); got != 60 {
			t.Errorf("%d bytes held, want 60", got)
		}
		for _, h := range []*limits.Holder[string]{a1, a2, b, c, c} {
			h.Close()
		}
		if got := m.Used(); got != 0 {
			t.Errorf("%d bytes held at the end", got)
		}
	})
}

// TestFairBudgetWaits: the key with most waits for what others give back, for so long.
func TestFairBudgetWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newFairBudget()
		a, b := m.Hold("a", func(error) { t.Error("a was evicted") }),
			m.Hold("b", func(error) { t.Error("b was evicted") })
		if !a.TryGrow(60) || !b.TryGrow(40) {
			t.Fatal("bytes are free")
		}
		begun := time.Now()
		if err := a.Grow(t.Context(), 10); status.Of(err) != status.Busy || time.Since(begun) != time.Second {
			t.Errorf("%v after %s, want busy after 1 s", err, time.Since(begun))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := a.Grow(ctx, 10); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if err := a.Grow(t.Context(), 101); status.Of(err) != status.Busy {
			t.Errorf("more than there is: %v", err)
		}
		time.AfterFunc(500*time.Millisecond, func() { b.Shrink(30) })
		if err := a.Grow(t.Context(), 10); err != nil {
			t.Error(err)
		}
		if got := m.Used(); got != 80 {
			t.Errorf("%d bytes held, want 80", got)
		}
	})
}

// TestFairBudgetOfManySmall: 1,000 holders of one key leave room for one of another.
func TestFairBudgetOfManySmall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newFairBudget()
		for range 1000 {
			var h *limits.Holder[string]
			h = m.Hold("many", func(error) { h.Close() })
			h.TryGrow(1)
		}
		honest := m.Hold("one", func(error) { t.Error("the honest one was evicted") })
		for range 4 {
			if err := honest.Grow(t.Context(), 10); err != nil {
				t.Fatal(err)
			}
		}
		if got := m.Used(); got > 100 {
			t.Errorf("%d bytes held, at most 100", got)
		}
	})
}
