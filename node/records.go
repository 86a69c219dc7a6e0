package node

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"allium/node/config"
	homedir "allium/node/home"
	"allium/node/readiness"
	"allium/node/supervise"
	"allium/protocols/dht"
	"allium/protocols/dht/records"
)

// recordsGate is shut while the records of discovery cannot be written to disk.
// Its scope is [readiness.Nothing], because peers have these records too.
func (n *Node) recordsGate() readiness.Reading {
	if n.cfg.Node.Amnesia || !n.started.Load() {
		return readiness.YesNo(true, "")
	}
	err := n.records.Err()
	r := readiness.YesNo(err == nil, fmt.Sprintf("records/ cannot be written, so a restart would lose what discovery "+
		"knows: %v; check that the disk has space and is writable, the node tries again by itself", err))
	r.RetryAfter = 5 * time.Second
	return r
}

// seedManifest returns a function that reads the signed list of seeds, or nil if
// none is configured.
func (n *Node) seedManifest() func() ([]byte, error) {
	name := manifestFile(n.home, n.cfg)
	if name == "" {
		return nil
	}
	return func() ([]byte, error) { return readSeeds(name) }
}

// manifestFile returns the path of the seed manifest, or "" if none is
// configured. A relative path is below home.
func manifestFile(home string, cfg config.Config) string {
	return homedir.Path(home, cfg.DHT.Seeds.SeedManifest)
}

// startStores opens both databases at once: most of that is waiting for the disk.
func (n *Node) startStores(ctx context.Context) error {
	objects := supervise.Service{
		Name: "store", Doc: "keeps the objects: writer, compaction, eviction, scrub",
		Run: n.store.Run, Fatal: true, Progress: n.store.Recovered,
	}
	records := n.recordsService()
	if records.Run == nil {
		n.services.Declare(records)
		return n.services.Start(ctx, objects)
	}
	return n.services.Start(ctx, objects, records)
}

// recordsService returns the service of the database in which discovery stores what outlives a
// restart: provider records, the state of the republish cycle, and what is known of seeds. With amnesia
// there is no database, the service cannot run, and discovery uses RAM.
func (n *Node) recordsService() supervise.Service {
	service := supervise.Service{
		Name: "records", Owner: "protocols/dht/records", Doc: "keeps what discovery learns on disk",
		When: "not with node.amnesia",
	}
	if !n.cfg.Node.Amnesia {
		n.records = records.New(
			records.Config{Dir: filepath.Join(n.home, homedir.RecordsDir), Peers: "/" + dht.RecordsSpace + "/"},
			records.Deps{Env: n.env()})
		service.Run = n.records.Run
	}
	return service
}
