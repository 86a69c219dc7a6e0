package node_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"allium/gateway/api"
	"allium/protocols/status"
)

// TestOverview looks at each part of an overview of a node that has a pin, a peer, a lookup, half an object and a
// reload.
func TestOverview(t *testing.T) {
	noLeaks(t)
	const size = 8 << 20
	asker, providers, large := provided(t, 1, size, "2MB") // slow enough to be cut short
	small := filepath.Join(t.TempDir(), "small")
	if err := os.WriteFile(small, []byte("small"), 0o600); err != nil {
		t.Fatal(err)
	}
	pinned := add(t, asker, small)[0].Root
	ctx, cancel := context.WithCancel(t.Context())
	var during api.Overview
	var duringErr error
	_, err := asker.api.Fetch(ctx, large, func(p api.Progress) {
		if p.Bytes > size/4 && ctx.Err() == nil {
			during, duringErr = asker.api.Overview(t.Context(), api.OverviewRequest{Parts: "now"})
			cancel()
		}
	})
	cancel()
	if err == nil || duringErr != nil {
		t.Fatalf("the fetch: %v; the overview meanwhile: %v", err, duringErr)
	}
	awaitNoTransfer(t, asker)
	if d := during.Now; d == nil || len(d.Transfers) == 0 || d.Transfers[0].Key != large || d.Transfers[0].Bytes == 0 ||
		during.Peers != nil || during.Content != nil {
		t.Errorf("while something is fetched: %+v", during)
	}
	if _, err := asker.api.SetFaults(t.Context(), api.Faults{Corrupt: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := asker.api.Reload(t.Context(), api.ReloadRequest{DryRun: true}); err != nil {
		t.Fatal(err)
	}
	v, err := asker.api.Overview(t.Context(), api.OverviewRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if v.ID != asker.ID().ID || len(v.Ready.Gates) == 0 {
		t.Errorf("%+v", v)
	}
	if now := v.Now; now.Traffic.In < size/4 || len(now.Limits) != api.MaxOverviewLimits || now.LimitsLeft <= 0 ||
		now.Store.Objects == 0 || now.Process.Goroutines == 0 {
		t.Errorf("now: %+v", now)
	}
	if p := v.Peers; len(p.Peers) == 0 || p.Peers[0].ID != providers[0].ID().ID || p.Peers[0].Breaker != "closed" ||
		p.Peers[0].Rate == 0 || len(p.Addrs) == 0 {
		t.Errorf("peers: %+v", p)
	}
	if c := v.Content; len(c.Pins) != 1 || c.Pins[0].Root != pinned || c.Pins[0].Size != 5 || c.PinsLeft ||
		len(c.Arriving) != 1 || c.Arriving[0].Root.String() != large || c.Arriving[0].Size != size ||
		len(c.Arriving[0].Cells) != api.OverviewCells {
		t.Errorf("content: %+v", c)
	}
	some := 0
	for _, percent := range v.Content.Arriving[0].Cells {
		some += percent * size / 100 / api.OverviewCells
	}
	if stored := int(v.Content.Arriving[0].Stored); some < stored*9/10 || some > stored*11/10 {
		t.Errorf("the cells show %d bytes of %d", some, stored)
	}
	if l := v.Lookups; len(l.Lookups) == 0 {
		t.Errorf("lookups: %+v", l)
	}
	if r := v.Reload; len(r.Reloads) != 1 || !r.Reloads[0].DryRun {
		t.Errorf("reload: %+v", r)
	}
	if n := v.Names; n.Own == nil || n.Watched == nil {
		t.Errorf("names: %+v", n)
	}
	space := v.Testnet.Space
	if len(space) < 2 || !space[0].Self || space[0].ID != v.ID || space[1].ID != providers[0].ID().ID ||
		!space[1].Connected || space[1].At == space[0].At || !v.Testnet.Faults.Corrupt {
		t.Errorf("testnet: %+v", v.Testnet)
	}
	if _, err := asker.api.Overview(t.Context(), api.OverviewRequest{Parts: "now,then"}); status.Of(err) !=
		status.BadRequest {
		t.Errorf("an unknown part: %v", err)
	}
}
