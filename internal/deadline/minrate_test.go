package deadline

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// TestPause: what is left of the patience is kept while the clock stands still,
// and as much as passes comes back.
func TestPause(t *testing.T) {
	p := NewMinRate(5*time.Second, 1000)
	at := func(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }
	p.Until(at(0))
	p.Pause(at(4)) // a second is left
	if got := p.Until(at(5)); got != at(7) {
		t.Errorf("after a pause of 1 s until %s", got.Sub(start))
	}
	p.Pause(at(6.5))
	if got := p.Until(at(66)); got != at(71) {
		t.Errorf("after a long pause until %s", got.Sub(start))
	}
	p.Pause(at(70))
	p.Rest()
	if got := p.Until(at(80)); got != at(85) {
		t.Errorf("after a rest until %s", got.Sub(start))
	}
}

// TestPaused: whatever a peer takes, and however it is paused, it is waited for
// no longer than its patience, what its bytes take at the rate, and the pauses.
func TestPaused(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const patience = 5 * time.Second
		p := NewMinRate(patience, 1<<10)
		now, waited, allowed := start, time.Duration(0), patience
		for range rapid.IntRange(1, 50).Draw(t, "waits") {
			end := p.Until(now)
			if end.Sub(now) > patience {
				t.Fatalf("%s are left", end.Sub(now))
			}
			wait := time.Duration(rapid.Int64Range(0, int64(patience)).Draw(t, "wait"))
			if now.Add(wait).After(end) {
				wait = max(0, end.Sub(now))
			}
			now, waited = now.Add(wait), waited+wait
			p.Pause(now)
			pause := time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "pause"))
			now, allowed = now.Add(pause), allowed+pause
		}
		if waited > allowed {
			t.Fatalf("%s were waited, %s allowed", waited, allowed)
		}
	})
}
