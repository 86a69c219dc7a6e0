package conns

import (
	"net"
	"os"
	"slices"
	"testing"
	"time"
)

// TestMeasure: a client that acknowledges a byte in time is not cut off, in whatever portions. One that
// does not is cut off at the end of the stall time, and at most one check later.
func TestMeasure(t *testing.T) {
	t.Parallel()
	const stall = 10 * time.Minute
	for name, c := range map[string]struct {
		every time.Duration // a byte is acknowledged at each multiple of it; 0: never
		until time.Duration // no more are acknowledged from then on
		ends  time.Duration // about when it is cut off; 0: never
	}{
		"nothing":                    {ends: stall},
		"a byte a second":            {every: time.Second, until: 24 * time.Hour},
		"a byte each nine minutes":   {every: 9 * time.Minute, until: 24 * time.Hour},
		"much, and then nothing":     {every: time.Second, until: time.Hour, ends: time.Hour + stall},
		"a byte each twelve minutes": {every: 12 * time.Minute, until: 24 * time.Hour, ends: stall},
	} {
		p := progress{stall: stall}
		begun := time.Unix(1e9, 0)
		elapsed, wait := time.Duration(0), stall/StallChecks // of the first deadline
		for wait > 0 && elapsed < 24*time.Hour {
			elapsed += wait
			acked := int64(0)
			if c.every > 0 {
				acked = int64(min(elapsed, c.until) / c.every)
			}
			wait = p.measure(acked, begun.Add(elapsed))
		}
		if cut := wait == 0; cut != (c.ends > 0) || cut && (elapsed < c.ends || elapsed > c.ends+2*stall/StallChecks) {
			t.Errorf("%s: cut %t after %s, want about %s", name, cut, elapsed, c.ends)
		}
	}
	// Writes that went well in between begin anew.
	p := progress{stall: stall}
	now := time.Unix(1e9, 0)
	p.measure(0, now)
	if wait := p.measure(0, now.Add(time.Hour)); wait != stall/StallChecks {
		t.Errorf("an hour later: %s", wait)
	}
}

// timedWire counts the deadlines that are set, and takes no bytes at a write after a deadline has passed.
type timedWire struct {
	net.Conn
	set  []time.Time
	over bool
	got  int
}

func (w *timedWire) SetWriteDeadline(t time.Time) error {
	w.set, w.over = append(w.set, t), false
	return nil
}

func (w *timedWire) Write(p []byte) (int, error) {
	if w.over {
		return 0, os.ErrDeadlineExceeded
	}
	w.got += len(p)
	return len(p), nil
}

// TestKeptDeadline: the write deadline of a connection outlives its requests. A write that runs into it goes on with
// another one. Only a request with another stall time sets its own.
func TestKeptDeadline(t *testing.T) {
	t.Parallel()
	w := &timedWire{}
	c := &Conn{Conn: w, halfClosed: &HalfClosed{}}
	c.progress.enabled = true
	answer := func(stall time.Duration) {
		t.Helper()
		c.progress.judge(stall)
		c.armDeadline()
		if n, err := c.Write(make([]byte, 10)); n != 10 || err != nil {
			t.Fatalf("%d bytes, %v", n, err)
		}
		if err := c.SetWriteDeadline(time.Time{}); err != nil { // as net/http does
			t.Fatal(err)
		}
	}
	answer(time.Hour)
	answer(time.Hour)
	if len(w.set) != 1 || w.set[0].IsZero() {
		t.Fatalf("deadlines %v, want one", w.set)
	}
	w.over = true
	answer(time.Hour)
	if len(w.set) != 2 || w.got != 30 {
		t.Errorf("%d deadlines and %d bytes after one has passed, want 2 and 30", len(w.set), w.got)
	}
	answer(time.Minute)
	if last := w.set[len(w.set)-1]; len(w.set) != 3 || time.Until(last) > time.Minute/StallChecks {
		t.Errorf("deadlines %v, want one of the shorter stall time", w.set)
	}
	if err := c.SetWriteDeadline(pastDeadline); err != nil || !slices.Contains(w.set, pastDeadline) {
		t.Errorf("deadlines %v, %v, want one in the past", w.set, err)
	}
}
