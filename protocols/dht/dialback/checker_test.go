package dialback

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"allium/internal/env"
)

// TestChecksAreBounded: dials of unreachable providers obey the common rate and are not
// repeated for ten minutes. Many providers of one IP group do not delay another group.
func TestChecksAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dials := make(chan peer.ID, 4096)
		d, err := New(Deps{Env: env.Env{Now: time.Now},
			Dial: func(ctx context.Context, p peer.ID, _ ma.Multiaddr) error {
				dials <- p
				<-ctx.Done()
				return ctx.Err()
			}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { _ = d.Run(ctx, func() {}); close(ended) }()
		defer func() { cancel(); <-ended }()
		check := func(group, provider, at string) {
			a := ma.StringCast(at)
			d.Check(Provider{peer.ID(provider), group}, []ma.Multiaddr{a}, a, func() {})
		}
		for i := range 2000 {
			check("9.9.0.0/16", fmt.Sprint("sybil", i), "/ip4/9.9.0.1/tcp/1")
		}
		check("8.8.0.0/16", "honest", "/ip4/8.8.0.1/tcp/1")
		time.Sleep(2 * dialTimeout)
		honest := func() (n int) {
			for range len(dials) {
				if <-dials == "honest" {
					n++
				}
			}
			return n
		}
		if honest() != 1 {
			t.Error("the other network's provider still waits")
		}
		if n := testutil.ToFloat64(d.checks.WithLabelValues("dropped")); n < 2000-queueSize-workers {
			t.Errorf("%v were dropped", n)
		}
		for _, want := range []int{0, 1} {
			time.Sleep(unreachedFor/2 + dialTimeout)
			check("8.8.0.0/16", "honest", "/ip4/8.8.0.1/tcp/1")
			synctest.Wait()
			if n := honest(); n != want {
				t.Errorf("dialled %d times, want %d", n, want)
			}
		}
	})
}
