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

// Offline is the store of a home directory that no node runs: the commands
// that need no network work on it directly. It implements api.Store.
type Offline struct {
	*localapi.Store
	services *supervise.Group
	ctx      context.Context
	unlock   func() // of the home directory
}

// OpenOffline opens the store below home, which nobody else can use until Close. Another process that uses it is busy; a configuration without a store on disk is amnesia.
func OpenOffline(ctx context.Context, home string, cfg config.Config) (*Offline, error) {
	if cfg.Store.Backend == store.BackendMemory {
		return nil, status.Errorf(status.Amnesia, "this node keeps its store in RAM, and it does not run; start it with `allium run`")
	}
	c := storeConfig(home, cfg.Store)
	c.ScrubRate = 0 // what is not there for long does not look after itself
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
	if err := o.services.Start(ctx, supervise.Service{Name: "store", Run: st.Run, Fatal: true, Progress: st.Recovered}); err != nil {
		unlock()
		return nil, err
	}
	return o, nil
}

// Close finishes what was begun and closes the store.
func (o *Offline) Close() error {
	defer o.unlock()
	o.services.Stop(o.ctx) // the store only finishes what it has admitted
	return o.services.Err()
}

// apiConfig says what kind of node the local API is of.
func apiConfig(home string, cfg config.Config) localapi.Config {
	return localapi.Config{
		SpoolDir: spoolDir(home, cfg.Store), InRAM: cfg.Store.Backend == store.BackendMemory,
		Seed: cfg.Node.Profile == p2p.Seed, SeedManifest: cfg.DHT.Seeds.SeedManifest != "",
	}
}

// storeConfig makes the store's directory absolute: a relative one lies below
// home.
func storeConfig(home string, c store.Config) store.Config {
	if !filepath.IsAbs(c.Dir) {
		c.Dir = filepath.Join(home, c.Dir)
	}
	return c
}

// spoolDir is where an add may keep a file that has no name; "" where nothing
// goes to disk.
func spoolDir(home string, c store.Config) string {
	if c.Backend == store.BackendMemory {
		return ""
	}
	return filepath.Join(storeConfig(home, c).Dir, "tmp")
}
