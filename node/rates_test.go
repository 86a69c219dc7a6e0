package node

import (
	"errors"
	"testing"

	"allium/internal/limits"
	"allium/node/config"
)

// TestRatesReload applies the rates of a configuration that is read again. One that cannot be read
// leaves them.
func TestRatesReload(t *testing.T) {
	registry := limits.NewRegistry(nil)
	b := newRates(registry, config.Node{UploadRate: 1 << 20})
	var next config.Config
	var fails error
	reload := b.reloader(func() (config.Config, error) { return next, fails }).Reload
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
	next.Node = config.Node{UploadRate: 2 << 20, DownloadRate: 3 << 20, LimitLAN: true}
	if err := reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect(2<<20, 3<<20, true)
	fails, next.Node = errors.New("a typing error"), config.Node{}
	if err := reload(t.Context()); !errors.Is(err, fails) {
		t.Errorf("got %v", err)
	}
	expect(2<<20, 3<<20, true)
}
