package node_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"allium/node/config"
)

// TestBrowsers fetches over WebTransport and over WebRTC-direct alone, the transports of listen.browsers.
func TestBrowsers(t *testing.T) {
	on := func(c *config.Config) { c.Listen.Browsers = true }
	a := start(t, on)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte(strings.Repeat("for browsers ", 20_000)), 0o600); err != nil {
		t.Fatal(err)
	}
	root := add(t, a, file)[0].Root.String()
	for _, transport := range []string{"/webtransport", "/webrtc-direct"} {
		t.Run(transport[1:], func(t *testing.T) {
			var only []string
			for _, addr := range a.ID().Addrs {
				if strings.Contains(addr, transport) {
					only = append(only, addr)
				}
			}
			if len(only) != 1 {
				t.Fatalf("addresses %v", a.ID().Addrs)
			}
			b := start(t, func(c *config.Config) {
				on(c)
				c.Listen.Listen = nil // so a does not dial it
				c.DHT.Seeds.Bootstrap = only
			})
			awaitProvider(t, b, root)
			if _, err := b.api.Fetch(t.Context(), root, nil); err != nil {
				t.Fatal(err)
			}
			peers, err := b.api.Peers(t.Context())
			if err != nil || len(peers) == 0 {
				t.Fatal(peers, err)
			}
			for _, p := range peers {
				if !strings.Contains(p.Addr, transport) {
					t.Errorf("connected at %s", p.Addr)
				}
			}
		})
	}
	t.Run("off", func(t *testing.T) {
		for _, addr := range start(t, nil).ID().Addrs {
			if strings.Contains(addr, "/web") {
				t.Errorf("it listens at %s", addr)
			}
		}
	})
}
