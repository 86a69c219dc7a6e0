package node

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"allium/node/capabilities"
	homedir "allium/node/home"

	"allium/gateway/api"
	"allium/gateway/denylist"
	"allium/node/config"
	"allium/node/p2p"
	"allium/protocols/status"
)

// Check reads the files that a node of that home reads at its start, and changes
// nothing: the identity, the denylist, the capabilities' files, the key of a
// private network, the seed manifest, the certificate. Its error is the one that
// New or Run would return, or, for the seed manifest, the gate seed_manifest would
// tell. What only a start shows it cannot tell: the store, ports, the network.
func Check(home string, cfg config.Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	if _, err := api.SocketPath(home); err != nil {
		return err
	}
	if err := homedir.Lost(home); err != nil && !cfg.Node.Amnesia {
		return err
	}
	if _, err := p2p.LoadKey(filepath.Join(home, homedir.KeyFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, err := denylist.New(denylistConfig(home, cfg.Gateway), denylist.Deps{}); err != nil {
		return err
	}
	if _, _, err := capabilities.Open(home).Both(); err != nil {
		return err
	}
	if _, err := homedir.SwarmKey(cfg.Node.SwarmKey); err != nil {
		return err
	}
	if err := checkManifest(home, cfg); err != nil {
		return err
	}
	return cfg.Gateway.TLS.CheckFiles()
}

// checkManifest reads the seed manifest as the node would. Whether it is older
// than one that was accepted before only the node knows.
func checkManifest(home string, cfg config.Config) error {
	name := manifestFile(home, cfg)
	if name == "" {
		return nil
	}
	authorities := cfg.DHT.Seeds.SeedAuthorities
	if len(authorities) == 0 {
		return status.Errorf(status.BadRequest, "dht.seed_manifest names %s, but dht.seed_authorities names nobody whose signature counts: add the id of who signed it", name)
	}
	if _, err := InspectSeeds(name, authorities); err != nil {
		return fmt.Errorf("dht.seed_manifest: %s does not count: %w", name, err)
	}
	return nil
}

// Notes says what a node of that configuration would do otherwise than one may
// expect of it, each in a sentence.
func Notes(cfg config.Config) []string {
	if cfg.Node.SwarmKey == "" {
		return nil
	}
	var unused []string
	for _, a := range cfg.Listen.Listen {
		if p2p.IsQUIC(a) {
			unused = append(unused, a)
		}
	}
	if len(unused) == 0 {
		return nil
	}
	return []string{"node.swarm_key makes the network private, which needs TCP: the node does not listen on " + strings.Join(unused, ", ")}
}
