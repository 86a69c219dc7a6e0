package session_test

import (
	"testing"
	"time"

	"allium/internal/testkit"
	"allium/protocols/session"
)

// TestReconfigure: sessions that are opened after a reload have its idle time, those that are open keep theirs, and
// the bounds tell their new sizes.
func TestReconfigure(t *testing.T) {
	bubble(t, testkit.Options{}, func(t *testing.T, net *testkit.Network) {
		cfg := session.DefaultConfig()
		cfg.IdleTimeout = 30 * time.Second
		n := start(t, net.Host("a"), cfg, nil)
		defer n.stop()
		before := dial(t, net.Host("before"), "a")
		before.hello()
		cfg.IdleTimeout, cfg.Sessions, cfg.ControlRate, cfg.EgressBytes = 12*time.Second, 7, 9, 8<<20
		n.Reconfigure(cfg)
		after := dial(t, net.Host("after"), "a")
		after.hello()
		elapsed(t, 12*time.Second, after.wantClose)
		elapsed(t, 18*time.Second, before.wantClose)
		testkit.WantCapacities(t, n.limits, map[string]int64{
			"session.sessions": 7, "session.control_rate": 9, "session.egress": 8 << 20,
		})
	})
}
