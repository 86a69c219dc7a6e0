package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"allium/gateway/api"
	"allium/node/config"
	"allium/node/health"
	homedir "allium/node/home"
	"allium/node/local"
	"allium/node/p2p"
	"allium/node/supervise"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
	"allium/store/disk"
	"allium/store/meta"
)

// Offline is the store of a home directory in which no node runs. Commands that
// need no network use it directly. It implements api.Store.
type Offline struct {
	*local.Store
	store    *store.Store
	services *supervise.Group
	ctx      context.Context
	unlock   func() // of the home directory
}

// OpenOffline opens the store below home and locks the home directory until
// Close. The error has the status busy if another process uses the directory,
// and amnesia if cfg has no store on disk.
func OpenOffline(ctx context.Context, home string, cfg config.Config) (*Offline, error) {
	if cfg.Store.Backend == store.BackendMemory {
		return nil, status.Errorf(status.Amnesia, "this node has its store in RAM, and it does not run; "+
			"start it with `allium run`")
	}
	c := storeConfig(home, cfg)
	c.ScrubRate = 0 // the store is open too briefly to scrub
	st, err := store.New(c, store.Deps{Hash: b3.NewHashQueue(runtime.GOMAXPROCS(0))})
	if err != nil {
		return nil, err
	}
	unlock, err := homedir.LockSoon(ctx, home)
	if err != nil {
		return nil, err
	}
	o := &Offline{
		unlock:   unlock,
		store:    st,
		Store:    local.NewStore(st, apiConfig(home, cfg)),
		services: supervise.New(supervise.Deps{}),
		ctx:      context.WithoutCancel(ctx),
	}
	err = o.services.Start(ctx, supervise.Service{Name: "store", Run: st.Run, Fatal: true, Progress: st.Recovered})
	if err != nil {
		unlock()
		return nil, err
	}
	return o, nil
}

// SampleStore reads a random sample of the store below home again while no node runs, as Health of a running node
// does. Without a store in files it returns unsupported.
func SampleStore(ctx context.Context, home string, cfg config.Config) (api.StoreSample, error) {
	format := filepath.Join(storeConfig(home, cfg).Dir, "FORMAT")
	if _, err := os.Stat(format); err != nil || cfg.Store.Backend != store.BackendEmbedded {
		return api.StoreSample{}, status.Errorf(status.Unsupported, "there is no store on disk")
	}
	off, err := OpenOffline(ctx, home, cfg)
	if err != nil {
		return api.StoreSample{}, err
	}
	s, err := health.Sample(ctx, off.store)
	return s, errors.Join(err, off.Close())
}

// Close waits for the operations that the store has admitted, closes the store
// and unlocks the home directory.
func (o *Offline) Close() error {
	defer o.unlock()
	o.services.Stop(o.ctx)
	return o.services.Err()
}

// apiConfig returns what the local API has to know of the node's configuration.
func apiConfig(home string, cfg config.Config) local.Config {
	targets, _ := cfg.Durability.Copies() // Validate has parsed them
	return local.Config{
		SpoolDir: spoolDir(home, cfg), InRAM: cfg.Store.Backend == store.BackendMemory,
		RestoresFiles: cfg.Store.Backend == store.BackendEmbedded,
		NoCluster:     !cfg.JoinsCluster(), Targets: targets,
		Seed: cfg.Node.Profile == p2p.Seed, SeedManifest: cfg.DHT.Seeds.SeedManifest != "",
	}
}

// storeConfig returns the configuration of the store. Its directory is absolute: a relative one is below home. What
// the node offers to its cluster is the quota of what members put.
func storeConfig(home string, cfg config.Config) store.Config {
	c := cfg.Store
	if n := cfg.Durability.Offer; n > 0 {
		c.Quotas = append(slices.Clone(c.Quotas), fmt.Sprintf("%s=%d", meta.ClusterLabel, int64(n)))
	}
	if !filepath.IsAbs(c.Dir) {
		c.Dir = filepath.Join(home, c.Dir)
	}
	return c
}

// spoolDir returns the directory in which an add may create unnamed files. It is
// empty if the store is in RAM: then nothing goes to disk.
func spoolDir(home string, c config.Config) string {
	if c.Store.Backend == store.BackendMemory {
		return ""
	}
	return filepath.Join(storeConfig(home, c).Dir, "tmp")
}

// RebuildReport says what a rebuild found.
type RebuildReport = disk.RebuildReport

// RebuildProgress says how far a rebuild is.
type RebuildProgress = disk.RebuildProgress

// RebuildStore builds the index of the store below home again from the log and
// the files. The error has the status busy while a node runs in home.
func RebuildStore(
	ctx context.Context, home string, cfg config.Config, progress func(RebuildProgress),
) (RebuildReport, error) {
	unlock, err := homedir.LockSoon(ctx, home)
	if err != nil {
		return RebuildReport{}, err
	}
	defer unlock()
	return store.Rebuild(ctx, storeConfig(home, cfg), store.Deps{}, progress)
}
