package session_test

import (
	"slices"
	"testing"
	"time"

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
				Host: h, Transports: func() []string { return []string{"tcp"} },
				Now: func() time.Time { return time.Now().Add(ahead) },
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
