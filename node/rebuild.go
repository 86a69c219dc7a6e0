package node

import (
	"context"

	homedir "allium/node/home"

	"allium/node/config"
	"allium/store"
	"allium/store/disk"
)

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
