package node

import (
	"testing"

	"allium/internal/limits"
	"allium/node/config"
)

// TestRatesSet: the rates of another configuration hold at once.
func TestRatesSet(t *testing.T) {
	registry := limits.NewRegistry(nil)
	b := newRates(registry, config.Node{UploadRate: 1 << 20})
	expect := func(up, down int64, near bool) {
		t.Helper()
		for _, i := range registry.Snapshot() {
			if want := map[string]int64{"node.upload_rate": up,
				"node.download_rate": down}[i.Name]; i.Capacity != want {
				t.Errorf("%s is %d, want %d", i.Name, i.Capacity, want)
			}
		}
		if b.upload.Bounds(true) != near {
			t.Errorf("the local network is bounded: %t", !near)
		}
	}
	expect(1<<20, 0, false)
	b.set(config.Node{UploadRate: 2 << 20, DownloadRate: 3 << 20, LimitLAN: true})
	expect(2<<20, 3<<20, true)
}
