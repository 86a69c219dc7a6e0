package node

import (
	"context"
	"log/slog"
	"path/filepath"
	"runtime"

	homedir "allium/node/home"

	"allium/node/config"
	"allium/node/localapi"
	"allium/node/p2p"
	"allium/node/supervise"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
)

// Offline is the store of a home directory in which no node runs. Commands that
// need no network use it directly. It implements api.Store.
type Offline struct {
	*localapi.Store
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
	c := storeConfig(home, cfg.Store)
	c.ScrubRate = 0 // the store is open too briefly to scrub
	st, err := store.New(c, store.Deps{Log: slog.New(slog.DiscardHandler), Hash: b3.NewHashQueue(runtime.GOMAXPROCS(0))})
	if err != nil {
		return nil, err
	}
	unlock, err := homedir.Lock(home)
	if err != nil {
		return nil, err
	}
	o := &Offline{
		unlock:   unlock,
		Store:    localapi.NewStore(st, apiConfig(home, cfg)),
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

// Close waits for the operations that the store has admitted, closes the store
// and unlocks the home directory.
func (o *Offline) Close() error {
	defer o.unlock()
	o.services.Stop(o.ctx)
	return o.services.Err()
}

// apiConfig returns what the local API has to know of the node's configuration.
func apiConfig(home string, cfg config.Config) localapi.Config {
	return localapi.Config{
		SpoolDir: spoolDir(home, cfg.Store), InRAM: cfg.Store.Backend == store.BackendMemory,
		NoCluster: !mayJoin(cfg),
		Seed:      cfg.Node.Profile == p2p.Seed, SeedManifest: cfg.DHT.Seeds.SeedManifest != "",
	}
}

// storeConfig returns c with an absolute directory: a relative one is below home.
func storeConfig(home string, c store.Config) store.Config {
	if !filepath.IsAbs(c.Dir) {
		c.Dir = filepath.Join(home, c.Dir)
	}
	return c
}

// spoolDir returns the directory in which an add may create unnamed files. It is
// empty if the store is in RAM: then nothing goes to disk.
func spoolDir(home string, c store.Config) string {
	if c.Backend == store.BackendMemory {
		return ""
	}
	return filepath.Join(storeConfig(home, c).Dir, "tmp")
}
