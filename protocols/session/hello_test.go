package session_test

import (
	"slices"
	"testing"
	"time"

	"allium/internal/env"
	"allium/internal/testkit"
	"allium/protocols/oap"
	"allium/protocols/session"
)

// TestHelloTellsTheTruth: the transports that listen, and both clocks, corrected
// by half the round trip.
func TestHelloTellsTheTruth(t *testing.T) {
	bubble(t, testkit.Options{Latency: 100 * time.Millisecond}, func(t *testing.T, net *testkit.Network) {
		service := func(h *testkit.Host, ahead time.Duration) *session.Service {
			s, err := session.New(session.DefaultConfig(), session.Deps{
				Env:  env.Env{Now: func() time.Time { return time.Now().Add(ahead) }},
				Host: h, Transports: func() []string { return []string{"tcp"} },
			})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		a, b := service(net.Host("a"), 0), service(net.Host("b"), -25*time.Hour)
		defer run(t, a)()
		defer run(t, b)()
		c, said, err := a.Clock(t.Context(), "b")
		if off := c.PeerTime.Sub(c.ReceivedAt.Round(0)); err != nil || !said ||
			(off+25*time.Hour).Abs() > 2*time.Millisecond {
			t.Errorf("%s, %t, %v", off, said, err)
		}
		w := dial(t, net.Host("c"), "a")
		w.send(oap.Header{Flags: whole}, `{"ua":"wire/1","features":[]}`)
		h, err := oap.DecodeHelloResponse(w.recv().Payload)
		if err != nil || !slices.Equal(h.Transports, []string{"tcp"}) || (time.Now().UnixMilli()-h.Now-100) > 2 {
			t.Errorf("%+v, %v", h, err)
		}
	})
}

// TestHelloTellsTheRegion: each side knows where the other says it is, also when their
// session has ended, and a peer that stops saying it is nowhere.
func TestHelloTellsTheRegion(t *testing.T) {
	bubble(t, testkit.Options{}, func(t *testing.T, net *testkit.Network) {
		service := func(h *testkit.Host, region string) *session.Service {
			s, err := session.New(session.DefaultConfig(), session.Deps{Host: h, Region: region})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		a, b := service(net.Host("a"), "eu-west"), service(net.Host("b"), "us")
		defer run(t, a)()
		stop := run(t, b)
		if _, _, err := a.Clock(t.Context(), "b"); err != nil {
			t.Fatal(err)
		}
		stop()
		if got, other := a.Region("b"), b.Region("a"); got != "us" || other != "eu-west" || a.Region("c") != "" {
			t.Errorf("b is in %q, a in %q, c in %q", got, other, a.Region("c"))
		}
		w := dial(t, net.Host("b"), "a")
		w.send(oap.Header{Flags: whole}, `{"ua":"wire/1","features":[]}`)
		if h, err := oap.DecodeHelloResponse(w.recv().Payload); err != nil || h.Region != "eu-west" {
			t.Errorf("%+v, %v", h, err)
		}
		if got := a.Region("b"); got != "" {
			t.Errorf("b says no region, and is in %q", got)
		}
	})
	for _, region := range []string{"EU", "a b", "é", "123456789012345678901234567890123"} {
		_, err := session.New(session.DefaultConfig(), session.Deps{Host: &testkit.Host{}, Region: region})
		if err == nil || session.ValidRegion(region) {
			t.Errorf("%q is a region", region)
		}
	}
}
