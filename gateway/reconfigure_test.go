package gateway

import (
	"net/http"
	"sync"
	"testing"

	"allium/gateway/server"
	"allium/internal/testkit"
)

// TestReconfigure: what a reload changes holds for the next request, and the limits tell it.
func TestReconfigure(t *testing.T) {
	t.Parallel()
	const app = "https://app.example"
	var cfg Config
	n := start(t, func(c *Config, _ *server.AdminConfig) {
		c.Inflight, c.ConnsPerIP, c.Rate = 100, 0, 0 // 0: none, and a reload may set one
		cfg = *c
	})
	root := n.objects.put([]byte("hello, hello"))
	get := func() answer {
		return do(t, "GET", n.Addrs().Gateway+"/o/"+root.String(), "Origin", app, "Range", "bytes=0-0,2-2,4-4")
	}
	before := get()
	if before.Header.Get("Access-Control-Allow-Origin") != "" ||
		before.StatusCode != http.StatusRequestedRangeNotSatisfiable {
		t.Fatalf("%s %v", before.Status, before.Header)
	}
	cfg.CORSOrigins, cfg.Content.MultiRange = []string{app}, 3
	cfg.Inflight, cfg.InflightPerIP, cfg.Transfers, cfg.Uploads = 11, 12, 13, 14
	cfg.Conns, cfg.ConnsPerIP, cfg.Rate, cfg.Burst = 15, 16, 17, 1000
	cfg.Content.Fetches, cfg.Content.FetchesPerIP = 18, 19
	folder := n.objects.tree(t, map[string]string{"a": "abc", "b": "defg"})
	archive := func() int { return do(t, "GET", folderURL(n, folder, "format=tar")).StatusCode }
	if code := archive(); code != http.StatusOK {
		t.Errorf("a folder: %d", code)
	}
	cfg.Folders.MaxEntries = 1
	n.Reconfigure(cfg)
	if code := archive(); code != http.StatusRequestEntityTooLarge {
		t.Errorf("a folder of more than one entry: %d", code)
	}
	cfg.Folders.MaxEntries, cfg.Folders.MaxBytes = 2, 6
	n.Reconfigure(cfg)
	if code := archive(); code != http.StatusRequestEntityTooLarge {
		t.Errorf("a folder of more than 6 bytes: %d", code)
	}
	after := get()
	if after.Header.Get("Access-Control-Allow-Origin") != app || after.StatusCode != http.StatusPartialContent {
		t.Errorf("%s %v", after.Status, after.Header)
	}
	testkit.WantCapacities(t, n.limits, map[string]int64{
		"gateway.inflight": 11, "gateway.inflight_per_ip": 12, "gateway.transfers": 13, "gateway.uploads": 14,
		"gateway.conns": 15, "gateway.conns_per_ip": 16, "gateway.rate": 17,
		"gateway.misses": 18, "gateway.misses_per_ip": 19,
	})
}

// TestReconfigureUnderLoad: requests of many clients go on while the bounds change again and again, none is refused for
// it, and none sees half of a change.
func TestReconfigureUnderLoad(t *testing.T) {
	t.Parallel()
	var cfg Config
	n := start(t, func(c *Config, _ *server.AdminConfig) { cfg = *c })
	root := n.objects.put([]byte("hello"))
	stop, rounds := make(chan struct{}), 0
	var changing, asking sync.WaitGroup
	changing.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			cfg.Inflight, cfg.Rate, cfg.Burst = 500+int64(rounds%2), float64(rounds%2)*1e6, 1e6
			cfg.ConnsPerIP, cfg.InflightPerIP = 400*(rounds%2), int64(400*(rounds/2%2))
			n.Reconfigure(cfg)
			rounds++
		}
	})
	for range 8 {
		asking.Go(func() {
			for range 100 {
				if a := do(t, "GET", n.Addrs().Gateway+"/o/"+root.String()); a.StatusCode != http.StatusOK {
					t.Errorf("%s: %s", a.Status, a.body)
				}
			}
		})
	}
	asking.Wait()
	close(stop)
	changing.Wait()
	if rounds == 0 {
		t.Error("nothing changed")
	}
	for _, l := range n.limits.Snapshot() {
		if l.Current != 0 && (l.Name == "gateway.inflight" || l.Name == "gateway.inflight_per_ip") {
			t.Errorf("%s: %d are left", l.Name, l.Current)
		}
	}
}
