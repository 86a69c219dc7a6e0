package adding

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"allium/cmd/allium/cli"
	"allium/gateway/api"
	"allium/gateway/api/client"
	"allium/node/files"
	"allium/node/files/addcache"
	"allium/node/files/addpaths"
	"allium/protocols/b3"
)

// addCacheDir is the directory of the add cache, below the home directory.
const addCacheDir = "cache/add"

// addedPaths is the file that says from which path each object was added, below the home directory.
const addedPaths = "cache/paths"

// keepingHome returns the home directory in which an add may keep what it learnt about files, "" if there
// is none or the store keeps nothing (amnesia).
func keepingHome(ctx context.Context, a *cli.App, s api.Store) (string, error) {
	if _, err := s.Keep(ctx, []b3.Root{{}}); err != nil {
		if errors.Is(err, client.ErrNotRunning) || ctx.Err() != nil {
			return "", err
		}
		return "", nil
	}
	home, err := a.HomeDir()
	if err != nil && a.API != "" {
		return "", nil // the node is elsewhere, and this machine needs no home
	}
	return home, err
}

// NotePaths remembers from which paths objects were added to the node of home, for lists of pins. Without
// them these have no names, so no error counts. home is that of CachedItems.
func NotePaths(ctx context.Context, a *cli.App, home string, roots []b3.Root, paths []string) {
	if a.API != "" || home == "" || len(roots) == 0 {
		return
	}
	added := make([]addpaths.Added, 0, len(roots))
	for i, root := range roots {
		if path, err := filepath.Abs(paths[i]); err == nil {
			added = append(added, addpaths.Added{Root: root, Path: path})
		}
	}
	_ = addpaths.Note(ctx, filepath.Join(home, filepath.FromSlash(addedPaths)), added)
}

// CachedItems returns items that do not read the files again that an earlier add has read, unless rehash is true, and
// the home directory in which an add may keep what it learnt, "" for none. Every file is read if the store keeps
// nothing (amnesia), another add has the cache open, or it cannot be opened. The caller calls done when the add has
// ended.
func CachedItems(
	ctx context.Context, a *cli.App, s api.Store, items files.Items, rehash bool,
) (_ files.Items, home string, done func(), err error) {
	home, err = keepingHome(ctx, a, s)
	if home == "" || err != nil {
		return items, "", func() {}, err
	}
	cache, err := addcache.Open(filepath.Join(home, filepath.FromSlash(addCacheDir)), time.Now)
	if err != nil {
		return items, home, func() {}, nil //nolint:nilerr // the cache only saves time
	}
	use := files.CacheOptions{Rehash: rehash, ReadOnly: a.API != ""}
	done = func() { _ = cache.Close() } // a file that the cache has lost is read again
	return files.CachedItems(items, cache, use), home, done, nil
}

// KnownPaths returns from which path objects were added to the node of the home directory. They are names
// for people: without them the pins are listed too, so no error counts.
func KnownPaths(a *cli.App) map[b3.Root]string {
	if a.API != "" {
		return nil
	}
	home, err := a.HomeDir()
	if err != nil {
		return nil
	}
	paths, _ := addpaths.Read(filepath.Join(home, filepath.FromSlash(addedPaths))) // none beside an error
	return paths
}
