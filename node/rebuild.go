package node

import (
	"context"

	homedir "allium/node/home"

	"allium/node/config"
	"allium/store"
	"allium/store/disk"
)

// RebuildReport is the store's.
type RebuildReport = disk.RebuildReport

// RebuildProgress is the store's.
type RebuildProgress = disk.RebuildProgress

// RebuildStore makes the index of the store below home anew, while no node runs
// on it: then it is busy.
func RebuildStore(ctx context.Context, home string, cfg config.Config, progress func(RebuildProgress)) (RebuildReport, error) {
	unlock, err := homedir.Lock(home)
	if err != nil {
		return RebuildReport{}, err
	}
	defer unlock()
	return store.Rebuild(ctx, storeConfig(home, cfg.Store), store.Deps{}, progress)
}
