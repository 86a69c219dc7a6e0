package network

import (
	"strings"
	"testing"
	"time"

	"allium/gateway/api"
)

// TestSeedLines shows what a testnet's seeds do not have: a manifest, its end,
// errors, and remembered peers.
func TestSeedLines(t *testing.T) {
	now := time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC)
	list := api.Seeds{
		Seeds: []api.Seed{
			{
				ID: "12D3A", Source: "manifest", Connected: true, LastSuccess: now.Add(-90 * time.Second),
				NotAfter: now.Add(48 * time.Hour), Gave: []string{"x", "y"}, GaveAt: now,
			},
			{ID: "12D3B", Source: "manifest", LastError: "dial:\n  * refused", Tries: 4, NotAfter: now},
		},
		Manifest:   &api.SeedManifest{Seq: 9, Signer: "12D3S", NotAfter: now, Error: "it expired"},
		Remembered: 17,
	}
	var fields []string
	for line := range strings.Lines(seedsText(list, now, false)) {
		fields = append(fields, strings.Join(strings.Fields(line), " "))
	}
	want := `seed source connected last success expires gave
12D3A manifest yes 1m30s ago 2026-10-03 2 peers
12D3B manifest no never expired -
4 tries: dial: * refused
manifest 9, signed by 12D3S, until 2026-10-01T12:00:00Z
manifest: it expired
17 peers remembered for when no seed answers`
	if got := strings.Join(fields, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := seedsText(list, now, true); got != "12D3A\n12D3B" {
		t.Errorf("quiet: %q", got)
	}
}
