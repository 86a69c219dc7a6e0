package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"allium/gateway/api"
	"allium/gateway/policy/access"
	"allium/gateway/policy/capabilities"
	"allium/gateway/policy/denylist"
	"allium/node/config"
	"allium/node/edge"
	homedir "allium/node/home"
	"allium/node/p2p"
	"allium/node/reload"
	"allium/protocols/status"
	"allium/resolver/names/zones"
	"allium/store"
)

// fileCheck is a test of what a node reads when it starts.
type fileCheck struct {
	name string // as of a task of a reload
	run  func(ctx context.Context, home string, cfg config.Config) error
}

// fileChecks are the tests, in the order in which a node would find what is wrong.
var fileChecks = []fileCheck{
	{"home", checkHome},
	{"denylist", func(_ context.Context, home string, cfg config.Config) error {
		_, err := denylist.New(denylistConfig(home, cfg.Gateway), denylist.Deps{})
		return err
	}},
	{"access", func(_ context.Context, home string, cfg config.Config) error {
		_, err := access.New(accessConfig(home, cfg.Listen), access.Deps{})
		return err
	}},
	{"capabilities", func(_ context.Context, home string, _ config.Config) error {
		_, _, err := capabilities.Open(home).Both()
		return err
	}},
	{"swarm_key", func(_ context.Context, home string, cfg config.Config) error {
		_, err := homedir.SwarmKey(homedir.Path(home, cfg.Node.SwarmKey))
		return err
	}},
	{"seed_manifest", func(_ context.Context, home string, cfg config.Config) error {
		return checkManifest(home, cfg)
	}},
	{"names", func(_ context.Context, home string, cfg config.Config) error { return checkShortNames(home, cfg) }},
	{"certificate", func(_ context.Context, _ string, cfg config.Config) error {
		return cfg.Gateway.TLS.CheckFiles()
	}},
	{"bucket", func(_ context.Context, _ string, cfg config.Config) error {
		if cfg.Store.Backend != store.BackendS3 {
			return nil
		}
		return cfg.Store.S3.CheckCredentials()
	}},
	{"packs", func(ctx context.Context, home string, cfg config.Config) error {
		return edge.CheckPacks(ctx, home, cfg.Edge.Pack)
	}},
	{"sources", func(_ context.Context, home string, cfg config.Config) error {
		return edge.CheckSources(home, cfg.Edge.Fill)
	}},
}

// Check reads the files that a node with this home directory reads when it starts, and changes nothing: the identity,
// the denylist, the files of capabilities, the key of a private network, the seed manifest, the certificate, the
// credentials of a bucket, the packs that are files, and the certificates of the authorities of sources; and the
// petnames and zone maps, which commands read.
//
// It returns all of the errors that New or Run would return, each once. A bad seed manifest or pack is an error too,
// though a node with one runs and reports it at a gate. Check does not look at the store, ports or the network.
func Check(ctx context.Context, home string, cfg config.Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	var errs []error
	told := map[string]bool{}
	for _, c := range fileChecks {
		if err := c.run(ctx, home, cfg); err != nil && !told[err.Error()] {
			told[err.Error()] = true
			errs = append(errs, err)
		}
	}
	if len(errs) == 1 {
		return errs[0]
	}
	return errors.Join(errs...)
}

// reloadChecks returns the tests of what a reload would read again, as tasks of a dry run.
func reloadChecks(home string, cfg config.Config) (files []reload.File) {
	for _, c := range fileChecks {
		files = append(files, reload.File{Name: c.name, Reload: func(ctx context.Context) error {
			return c.run(ctx, home, cfg)
		}})
	}
	return files
}

// checkHome checks the socket, the identity and its traces.
func checkHome(_ context.Context, home string, cfg config.Config) error {
	if _, err := api.SocketPath(home); err != nil {
		return err
	}
	if err := homedir.Lost(home); err != nil && !cfg.Node.Amnesia {
		return err
	}
	if _, err := p2p.LoadKey(filepath.Join(home, homedir.KeyFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
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

// Notes returns a sentence for each setting of cfg that another one overrides without an error, or that is less safe
// than it seems.
func Notes(cfg config.Config) (notes []string) {
	if cfg.Store.Backend == store.BackendS3 {
		if err := cfg.Store.S3.OpenToOthers(); status.Of(err) == status.Forbidden {
			notes = append(notes, "store.s3.credentials_file: "+err.Error())
		}
	}
	if cfg.Node.SwarmKey == "" {
		return notes
	}
	var unused []string
	for _, a := range cfg.Listen.Listen {
		if p2p.IsQUIC(a) {
			unused = append(unused, a)
		}
	}
	if len(unused) == 0 {
		return notes
	}
	return append(notes, "node.swarm_key makes the network private, and QUIC has no place for its key: the node "+
		"leaves out "+strings.Join(unused, ", "))
}
