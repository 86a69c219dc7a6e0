package node

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"allium/gateway/api"
	"allium/internal/tasks"
	"allium/internal/testkit"
	"allium/node/config"
	"allium/node/p2p"
	"allium/protocols/status"
)

// capacity is the capacity of a limit of a node.
func capacity(n *Node, name string) int64 {
	for _, i := range n.limits.Snapshot() {
		if i.Name == name {
			return i.Capacity
		}
	}
	return -1
}

// checkProved fails unless there is a test of that name, as package.Test.
func checkProved(t *testing.T, key, test string) {
	dir, name, _ := strings.Cut(test, ".")
	files, err := filepath.Glob(filepath.Join("..", dir, "*_test.go"))
	if err != nil || test == "" {
		t.Errorf("%s is hot and nothing proves it: %v", key, err)
		return
	}
	if !slices.ContainsFunc(files, func(file string) bool {
		src, err := os.ReadFile(file)
		return err == nil && strings.Contains(string(src), "func "+name+"(t *testing.T)")
	}) {
		t.Errorf("%s: there is no %s", key, test)
	}
}

// hotProbes change each hot key, and say what the running node then shows of it. A key that is hot and has none here is
// an error: nothing proves that a reload applies it.
var hotProbes = map[string]probe{
	"node.upload_rate": {
		func(c *config.Config) { c.Node.UploadRate = 1 << 20 },
		func(n *Node) bool { return capacity(n, "node.upload_rate") == 1<<20 },
	},
	"node.download_rate": {
		func(c *config.Config) { c.Node.DownloadRate = 2 << 20 },
		func(n *Node) bool { return capacity(n, "node.download_rate") == 2<<20 },
	},
	"node.limit_lan": {
		func(c *config.Config) { c.Node.UploadRate, c.Node.LimitLAN = 1<<20, true },
		func(n *Node) bool { return n.rates.upload.Bounds(true) },
	},
	"node.reload_guard": {
		func(c *config.Config) { c.Node.ReloadGuard = 1 },
		func(n *Node) bool { return n.reloads.Current().Node.ReloadGuard == 1 },
	},
	"gateway.inflight": limit("gateway.inflight", 11, func(c *config.Config) { c.Gateway.Inflight = 11 }),
	"gateway.inflight_per_ip": limit("gateway.inflight_per_ip", 12,
		func(c *config.Config) { c.Gateway.InflightPerIP = 12 }),
	"gateway.transfers":    limit("gateway.transfers", 13, func(c *config.Config) { c.Gateway.Transfers = 13 }),
	"gateway.uploads":      limit("gateway.uploads", 14, func(c *config.Config) { c.Gateway.Uploads = 14 }),
	"gateway.conns":        limit("gateway.conns", 15, func(c *config.Config) { c.Gateway.Conns = 15 }),
	"gateway.conns_per_ip": limit("gateway.conns_per_ip", 16, func(c *config.Config) { c.Gateway.ConnsPerIP = 16 }),
	"gateway.rate":         limit("gateway.rate", 17, func(c *config.Config) { c.Gateway.Rate = 17 }),
	"gateway.misses":       limit("gateway.misses", 18, func(c *config.Config) { c.Gateway.Content.Fetches = 18 }),
	"gateway.misses_per_ip": limit("gateway.misses_per_ip", 19,
		func(c *config.Config) { c.Gateway.Content.FetchesPerIP = 19 }),
	"session.sessions":     limit("session.sessions", 20, func(c *config.Config) { c.Session.Sessions = 20 }),
	"session.control_rate": limit("session.control_rate", 21, func(c *config.Config) { c.Session.ControlRate = 21 }),
	"session.egress_bytes": limit("session.egress", 22<<20,
		func(c *config.Config) { c.Session.EgressBytes = 22 << 20 }),
	"object.serving": limit("object.serving", 23, func(c *config.Config) { c.Object.Serving = 23 }),
	"object.egress_bytes": limit("object.egress_bytes", 24<<20,
		func(c *config.Config) { c.Object.EgressBytes = 24 << 20 }),
	"dht.lookups":        limit("dht.lookups", 25, func(c *config.Config) { c.DHT.Lookups = 25 }),
	"dht.dials":          limit("dht.dials", 26, func(c *config.Config) { c.DHT.Dials = 26 }),
	"dht.guard.rate":     limit("dht.rate", 27, func(c *config.Config) { c.DHT.Guard.Rate = 27 }),
	"dht.guard.inflight": limit("dht.inflight", 28, func(c *config.Config) { c.DHT.Guard.Inflight = 28 }),
	"resolver.fetches":   limit("resolver.fetches", 29, func(c *config.Config) { c.Resolver.Fetches = 29 }),
	"store.puts":         limit("store.puts", 30, func(c *config.Config) { c.Store.Puts = 30 }),
	"store.uploads":      limit("store.uploads", 31, func(c *config.Config) { c.Store.Uploads = 31 }),
	"store.repair_rate":  limit("repair.bytes", 32<<20, func(c *config.Config) { c.Store.RepairRate = 32 << 20 }),
	"store.max_bytes": {
		func(c *config.Config) { c.Store.MaxBytes = 1 << 30 },
		func(n *Node) bool { return n.store.Collector().Space().Max.Bytes == 1<<30 },
	},
	"store.max_objects": {
		func(c *config.Config) { c.Store.MaxObjects = 1000 },
		func(n *Node) bool { return n.store.Collector().Space().Max.Objects == 1000 },
	},
	"edge.fills": {
		func(c *config.Config) { c.Edge.Fill.Fills = 33 },
		func(n *Node) bool {
			return slices.ContainsFunc(n.tasks.Snapshot(), func(i tasks.Info) bool {
				return i.Name == "fills.workers" && i.Count == 33
			})
		},
	},
	"log.level": {
		func(c *config.Config) { c.Log.Level = "error" },
		func(n *Node) bool { return n.logLevel.Level() == slog.LevelError },
	},
}

type probe struct {
	change func(*config.Config)
	shows  func(*Node) bool
}

// limit is the probe of a key that is the capacity of a limit.
func limit(name string, size int64, change func(*config.Config)) probe {
	return probe{change, func(n *Node) bool { return capacity(n, name) == size }}
}

// provedBelow names the tests of other packages that prove the hot keys of which a node shows nothing from outside.
var provedBelow = map[string]string{
	"gateway.archive_entries":        "gateway.TestReconfigure",
	"gateway.archive_bytes":          "gateway.TestReconfigure",
	"gateway.burst":                  "gateway.TestReconfigure",
	"gateway.prefix":                 "gateway.TestReconfigure",
	"gateway.trusted_proxies":        "gateway.TestReconfigure",
	"gateway.cors_origins":           "gateway.TestReconfigure",
	"gateway.subdomain_hosts":        "gateway.TestSites",
	"gateway.dnslink":                "gateway.TestSites",
	"gateway.sites.NAME.domain":      "gateway.TestSites",
	"gateway.sites.NAME.aliases":     "gateway.TestSites",
	"gateway.sites.NAME.key":         "gateway.TestSites",
	"gateway.sites.NAME.clean_urls":  "gateway.TestSites",
	"gateway.min_rate":               "gateway.TestReconfigure",
	"gateway.multi_range":            "gateway.TestReconfigure",
	"gateway.open_proofs":            "gateway.TestOpenProofs",
	"gateway.first_byte_timeout":     "gateway.TestReconfigure",
	"gateway.denylist":               "gateway/policy/denylist.TestReconfigure",
	"gateway.tls.cert":               "gateway/certs.TestReconfigure",
	"gateway.tls.key":                "gateway/certs.TestReconfigure",
	"gateway.tls.certs":              "gateway/certs.TestSeveralFiles",
	"edge.cors":                      "gateway/pack.TestReconfigure",
	"edge.packs.NAME.file":           "gateway/pack.TestReconfigure",
	"edge.packs.NAME.key":            "gateway/pack.TestReconfigure",
	"edge.mode":                      "gateway.TestAssetModeReconfigured",
	"edge.fill_bytes":                "gateway/fill.TestReconfigure",
	"edge.min_fresh":                 "gateway/fill.TestReconfigure",
	"edge.max_fresh":                 "gateway/fill.TestReconfigure",
	"edge.max_stale":                 "gateway/fill.TestReconfigure",
	"edge.sources.NAME.key":          "gateway/fill.TestReconfigure",
	"edge.sources.NAME.url":          "gateway/fill.TestReconfigure",
	"edge.sources.NAME.urls":         "gateway/fill.TestReconfigure",
	"edge.sources.NAME.private":      "gateway/fill.TestReconfigure",
	"edge.sources.NAME.ca_file":      "gateway/fill.TestReconfigure",
	"edge.sources.NAME.require_etag": "gateway/fill.TestReconfigure",
	"edge.sources.NAME.announce":     "gateway/fill.TestReconfigure",
	"edge.sources.NAME.manifest":     "gateway/fill.TestReconfigure",
	"listen.allow":                   "gateway/policy/access.TestReconfigure",
	"listen.deny":                    "gateway/policy/access.TestReconfigure",
	"audit.max_bytes":                "gateway/policy/audit.TestReconfigure",
	"audit.keep":                     "gateway/policy/audit.TestReconfigure",
	"session.idle_timeout":           "protocols/session.TestReconfigure",
	"object.peer_inflight":           "protocols/object.TestReconfigure",
	"object.min_rate":                "protocols/object.TestReconfigure",
	"dht.bootstrap":                  "protocols/dht.TestReconfigure",
	"dht.alpha":                      "protocols/dht.TestReconfigure",
	"dht.beta":                       "protocols/dht.TestReconfigure",
	"dht.hedge_after":                "protocols/dht.TestReconfigure",
	"dht.find_timeout":               "protocols/dht.TestReconfigure",
	"dht.max_records":                "protocols/dht.TestReconfigure",
	"resolver.deadline":              "resolver.TestReconfigure",
	"resolver.hedge_after":           "resolver.TestReconfigure",
	"resolver.providers_per_object":  "resolver.TestReconfigure",
	"store.gc_duty":                  "store.TestReconfigure",
	"store.scrub_interval":           "store.TestScrubReconfigured",
	"store.scrub_rate":               "store.TestScrubReconfigured",
	"store.upload_ttl":               "store.TestReconfigure",
}

// TestHotKeysApply: each hot key changes something that the running node shows, and a reload of the first
// configuration changes it back.
func TestHotKeysApply(t *testing.T) {
	t.Parallel()
	cfg := config.Default(p2p.Testnet)
	var mu sync.Mutex
	next := cfg
	n, err := New(t.TempDir(), cfg, Deps{Level: &slog.LevelVar{}, Configuration: func() (config.Loaded, error) {
		mu.Lock()
		defer mu.Unlock()
		return config.Unsourced(next), nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer testkit.Start(t, n.Run)()
	reload := func(change func(*config.Config)) api.Reloaded {
		t.Helper()
		mu.Lock()
		next = cfg
		change(&next)
		mu.Unlock()
		done, err := n.Reload(t.Context(), api.ReloadRequest{})
		if err != nil || done.Failed() != nil || done.Result != api.ReloadApplied {
			t.Errorf("%+v, %v", done, err)
		}
		return done
	}
	for _, k := range config.Keys() {
		key := k.Name
		if !config.IsHot(key) {
			continue
		}
		p, ok := hotProbes[key]
		if !ok {
			checkProved(t, key, provedBelow[key])
			continue
		}
		if p.shows(n) {
			t.Errorf("%s: the probe shows it before", key)
		}
		done := reload(p.change)
		if !slices.ContainsFunc(done.Changed, func(c api.ConfigChange) bool { return c.Key == key && c.Hot }) {
			t.Errorf("%s: changed %+v", key, done.Changed)
		}
		if !p.shows(n) {
			t.Errorf("%s: the node does not show it", key)
		}
		reload(func(*config.Config) {})
		if p.shows(n) {
			t.Errorf("%s: the node still shows it", key)
		}
	}
	n.reloads.Drain()
	if _, err := n.Reload(t.Context(), api.ReloadRequest{}); status.Of(err) != status.Draining {
		t.Errorf("draining: %v", err)
	}
}
