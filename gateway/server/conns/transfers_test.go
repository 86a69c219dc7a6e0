package conns

import (
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestSlowestOverTheWholeTime: what a kernel takes at once does not make a client fast, and what it
// takes in the first moments does not make a new one slow.
func TestSlowestOverTheWholeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		time.Sleep(time.Hour)
		now := time.Now()
		transferOf := func(bytes int64, lasts time.Duration) *Transfer {
			x := &Transfer{began: now.Add(-lasts)}
			x.bytes.Store(bytes)
			return x
		}
		steady := transferOf(80_000*3600, now.Sub(began))
		for name, c := range map[string]struct {
			other   *Transfer
			slowest bool // the other one is
		}{
			"new, nothing yet":                  {transferOf(0, time.Second), false},
			"two minutes, its kernel took 6 MB": {transferOf(6<<20, 2*time.Minute), false},
			"an hour, its kernel took 16 MiB":   {transferOf(16<<20, time.Hour), true},
			"half an hour, nothing":             {transferOf(0, time.Hour/2), true},
			"half an hour at the same rate":     {transferOf(80_000*1800, time.Hour/2), false},
		} {
			if got := slowest([]*Transfer{steady, c.other}) == c.other; got != c.slowest {
				t.Errorf("%s: the slowest: %t", name, got)
			}
		}
	})
}

// TestTransfersAreCounted: whatever ends first, each place is given back once.
func TestTransfersAreCounted(t *testing.T) {
	t.Parallel()
	ts := NewTransfers(nil, "gateway.transfers", 8, func() {})
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for range 500 {
				x := &Transfer{group: GroupOf(netip.AddrFrom4([4]byte{10, 0, 0, byte(i % 3)})), began: time.Now()}
				if ts.begin(x) == nil {
					ts.end(x)
				}
			}
		})
	}
	wg.Wait()
	for range 8 {
		if err := ts.gate.Enter(); err != nil {
			t.Fatal(err)
		}
	}
	if len(ts.perClient) != 0 || ts.gate.Enter() == nil {
		t.Errorf("%d clients are left", len(ts.perClient))
	}
}
