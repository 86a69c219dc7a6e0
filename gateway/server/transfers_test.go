package server

import (
	"net/netip"
	"sync"
	"testing"
	"time"
)

// TestTransfersAreCounted: whatever ends first, each place is given back once.
func TestTransfersAreCounted(t *testing.T) {
	t.Parallel()
	ts := newTransfers(nil, "gateway.transfers", 8, func() {})
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for range 500 {
				x := &transfer{group: groupOf(netip.AddrFrom4([4]byte{10, 0, 0, byte(i % 3)})), began: time.Now()}
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
