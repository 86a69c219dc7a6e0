package node

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"allium/gateway/policy/access"
	"allium/gateway/policy/capabilities"
	homedir "allium/node/home"

	"allium/gateway/api"
	"allium/gateway/policy/denylist"
	"allium/node/config"
	"allium/node/p2p"
	"allium/protocols/status"
	"allium/resolver/names/zones"
)

// Check reads the files that a node with this home directory reads when it
// starts, and changes nothing: the identity, the denylist, the files of
// capabilities, the key of a private network, the seed manifest, the certificate; and the
// petnames and zone maps, which commands read.
// It returns the error that New or Run would return. A bad seed manifest is an
// error too, though a node with one runs and reports it at the gate
// seed_manifest. Check does not look at the store, ports or the network.
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
	if _, err := access.New(accessConfig(home, cfg.Listen), access.Deps{}); err != nil {
		return err
	}
	if _, _, err := capabilities.Open(home).Both(); err != nil {
		return err
	}
	if _, err := homedir.SwarmKey(homedir.Path(home, cfg.Node.SwarmKey)); err != nil {
		return err
	}
	if err := checkManifest(home, cfg); err != nil {
		return err
	}
	if err := checkShortNames(home, cfg); err != nil {
		return err
	}
	return cfg.Gateway.TLS.CheckFiles()
}

// checkManifest checks the seed manifest as a node does, except for one thing:
// only a node knows whether it has accepted a newer manifest before.
func checkManifest(home string, cfg config.Config) error {
	name := manifestFile(home, cfg)
	if name == "" {
		return nil
	}
	authorities := cfg.DHT.Seeds.SeedAuthorities
	if len(authorities) == 0 {
		return status.Errorf(status.BadRequest, "dht.seed_manifest names %s, but dht.seed_authorities is empty, "+
			"so no signature counts: add the id of the signer", name)
	}
	if _, err := InspectSeeds(name, authorities); err != nil {
		return fmt.Errorf("dht.seed_manifest: %s does not count: %w", name, err)
	}
	return nil
}

// checkShortNames checks the petnames and the zone maps.
func checkShortNames(home string, cfg config.Config) error {
	z, err := zones.Open(home, cfg.Names, cfg.Node.Amnesia)
	if err != nil {
		return err
	}
	names, err := z.ShortNames()
	if err != nil {
		return err
	}
	_, errs := names.All(time.Now())
	return errors.Join(errs...)
}

// Notes returns a sentence for each setting of cfg that another one overrides
// without an error.
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
	return []string{"node.swarm_key makes the network private, and QUIC has no place for its key: the node " +
		"leaves out " +
		strings.Join(unused, ", ")}
}
