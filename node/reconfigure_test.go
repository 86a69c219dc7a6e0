package node

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"

	"allium/gateway/api"
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

// hotProbes change each hot key, and say what the running node then shows of it. A key that is hot and has none here is
// an error: nothing proves that a reload applies it.
var hotProbes = map[string]struct {
	change func(*config.Config)
	shows  func(*Node) bool
}{
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
	"log.level": {
		func(c *config.Config) { c.Log.Level = "error" },
		func(n *Node) bool { return n.logLevel.Level() == slog.LevelError },
	},
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
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ready := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		if err := n.Run(ctx, func() { close(ready) }); err != nil {
			t.Error(err)
		}
	})
	defer running.Wait()
	defer cancel()
	<-ready
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
	for _, key := range config.HotKeys() {
		p, ok := hotProbes[key]
		if !ok {
			t.Errorf("%s is hot and has no probe", key)
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
