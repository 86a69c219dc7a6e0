package node

import (
	"fmt"
	"path/filepath"
	"time"

	"allium/node/config"
	"allium/node/readiness"
)

// recordsGate tells that discovery's records are in RAM alone. It holds nothing
// back: the network has them too.
func (n *Node) recordsGate() readiness.Reading {
	if n.cfg.Node.Amnesia || !n.started.Load() {
		return readiness.YesNo(true, "")
	}
	err := n.records.Err()
	r := readiness.YesNo(err == nil, fmt.Sprintf("records/ cannot be written, so what discovery knows would be lost at a restart: %v; see that the disk has room and is writable, the node tries it again by itself", err))
	r.RetryAfter = 5 * time.Second
	return r
}

// seedManifest reads the signed list of seeds; nil when none is configured. A
// relative path is one below the home directory.
func (n *Node) seedManifest() func() ([]byte, error) {
	name := manifestFile(n.home, n.cfg)
	if name == "" {
		return nil
	}
	return func() ([]byte, error) { return readSeeds(name) }
}

// manifestFile is the file of the seed manifest; empty: none.
func manifestFile(home string, cfg config.Config) string {
	name := cfg.DHT.Seeds.SeedManifest
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(home, name)
}
