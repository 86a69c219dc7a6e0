package p2p

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	ma "github.com/multiformats/go-multiaddr"

	"allium/internal/testkit/simnet"
)

// TestObservedAddressKept: peers that saw a node's address go away, and the node keeps it for ten minutes.
func TestObservedAddressKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSimulated(t, 8)
		defer s.close()
		for i, a := range s.seeds {
			for _, b := range s.seeds[i+1:] {
				s.connect(a, b)
			}
		}
		n := s.join(simnet.FullCone, "30.0.0.1")
		time.Sleep(30 * time.Second)
		known := func() bool {
			return slices.ContainsFunc(n.Addrs(), func(a ma.Multiaddr) bool {
				ip, err := a.ValueForProtocol(ma.P_IP4)
				return err == nil && ip == "30.0.0.1"
			})
		}
		if !known() {
			t.Fatalf("it announces %v", n.Addrs())
		}
		left := 0
		for _, seed := range s.seeds { // four would be enough; the relays stay
			if !slices.Contains(relaysOf(n), seed.ID()) && left < 6 {
				_ = n.Network().ClosePeer(seed.ID())
				left++
			}
		}
		time.Sleep(9 * time.Minute)
		if !known() {
			t.Errorf("after 9 minutes it announces %v", n.Addrs())
		}
		time.Sleep(3 * time.Minute)
		if known() {
			t.Errorf("after 12 minutes it still announces %v", n.Addrs())
		}
	})
}
