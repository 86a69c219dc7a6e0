package allowance

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/ipgroup"
	"allium/protocols/status"
)

// TestFreeIdentitiesTakeNoPlaces: of the requests in flight and of the streams a
// network has a part, by however many identities it asks.
func TestFreeIdentitiesTakeNoPlaces(t *testing.T) {
	g := newTested(t, nil)
	const sybils = ipgroup.Group("66.0.0.0/16")
	in := 0
	for i := range 2 * DefaultConfig().Inflight {
		if release, err := g.Admit(t.Context(), peer.ID(fmt.Sprint(i)), sybils, 1); err == nil {
			defer release()
			in++
		} else if o := status.Of(err); o != status.Quota {
			t.Fatal(err)
		}
	}
	if in == 0 || in > DefaultConfig().Inflight/groupFraction {
		t.Errorf("%d requests in flight", in)
	}
	release, err := g.Admit(t.Context(), "honest", "8.8.0.0/16", 1)
	if err != nil {
		t.Fatalf("beside %d requests in flight: %v", in, err)
	}
	release()

	streams := 0
	for range 2 * maxStreams {
		if release, err := g.Stream(sybils); err == nil {
			defer release()
			streams++
		}
	}
	if streams == 0 || streams > maxStreams/groupFraction {
		t.Errorf("%d streams", streams)
	}
	g.wantRejected(t, kindInflight, 0)
	g.wantRejected(t, kindGroupInflight, float64(2*DefaultConfig().Inflight-in))
	g.wantRejected(t, kindGroupStreams, float64(2*maxStreams-streams))
	if release, err = g.Stream("8.8.0.0/16"); err != nil {
		t.Fatalf("beside %d streams: %v", streams, err)
	}
	release()
}

// TestFreeIdentitiesTakeNoTokens: a network that asks with a new identity each
// time has its share of the rate, not a full bucket for each, and another network
// has its own.
func TestFreeIdentitiesTakeNoTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTested(t, func(c *Config) { c.Rate, c.PeerRate = 200, 100 })
		refused, asked := 0, 0
		for ms := range 5000 {
			time.Sleep(time.Millisecond)
			for i := range 5 { // 5,000 a second
				if release, err := g.Admit(t.Context(), peer.ID(fmt.Sprint(ms, i)), "66.0.0.0/16", 1); err == nil {
					release()
				}
			}
			if ms%20 != 0 || ms < 100 {
				continue
			}
			asked++ // 50 a second
			if release, err := g.Admit(t.Context(), "honest", "8.8.0.0/16", 1); err == nil {
				release()
			} else {
				refused++
			}
		}
		if refused > 0 {
			t.Errorf("%d of %d requests were refused", refused, asked)
		}
	})
}
