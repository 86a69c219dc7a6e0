package p2p

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"allium/internal/testkit/simnet"
)

// TestOutageOverQUIC: a node that reached nobody for a while, by QUIC alone, reaches a peer at the first try when it is
// there again, at most a minute later. One that has connections goes on to pass over what does not answer.
func TestOutageOverQUIC(t *testing.T) {
	t.Parallel()
	for name, connected := range map[string]bool{"alone": false, "connected": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSimulated(t, 2)
				defer s.close()
				n := s.add(Desktop, simnet.FullCone, "30.0.0.1", nil)
				if connected {
					s.connect(n, s.seeds[0])
				}
				for i := range 12 {
					a := ma.StringCast(fmt.Sprintf("/ip4/40.0.0.%d/udp/4901/quic-v1", i+1))
					id, err := peer.IDFromPublicKey(newKey(t).GetPublic())
					if err != nil {
						t.Fatal(err)
					}
					if n.Connect(t.Context(), peer.AddrInfo{ID: id, Addrs: []ma.Multiaddr{a}}) == nil {
						t.Fatal("somebody is at an address where nobody is")
					}
				}
				time.Sleep(time.Minute + time.Second)
				err := n.Connect(t.Context(), peer.AddrInfo{ID: s.seeds[1].ID(), Addrs: s.seeds[1].Addrs()})
				if (err != nil) != connected {
					t.Errorf("after the outage: %v", err)
				}
			})
		})
	}
}
