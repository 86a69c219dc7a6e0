package follow

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"

	"allium/node/files/extract"
	"allium/protocols/manifest"
)

// removeOthers removes what the version does not have: what updates wrote, or everything with
// [Options.Mirror].
func (u *update) removeOthers(ctx context.Context) error {
	dirs := []string{""}
	for _, e := range u.entries {
		if e.Kind == manifest.Directory {
			dirs = append(dirs, e.path)
		}
	}
	for _, dir := range dirs {
		in, _, err := u.dirs.Of(path.Join(dir, "a name")) // opens dir
		if err != nil {
			return &manifest.EntryError{Entry: dir, Err: err}
		}
		names, err := namesIn(in)
		if err != nil {
			return &manifest.EntryError{Entry: dir, Err: err}
		}
		for _, name := range names {
			at := path.Join(dir, name)
			if _, stays := u.index[at]; stays || at == stagingName {
				continue
			}
			if _, err := u.remove(ctx, in, name, at, 0); err != nil {
				return &manifest.EntryError{Entry: at, Err: err}
			}
		}
	}
	return nil
}

// namesIn returns the names in a directory.
func namesIn(dir *os.Root) ([]string, error) {
	f, err := dir.Open(".")
	if err != nil {
		return nil, err
	}
	names, err := f.Readdirnames(-1) // of this machine's disk
	return names, errors.Join(err, f.Close())
}

// remove removes what is at a path, with everything below it, as far as it may be removed, and reports
// whether all of it is gone. depth is how many directories were entered.
func (u *update) remove(ctx context.Context, in *os.Root, name, at string, depth int) (gone bool, err error) {
	recs := u.d.recs[at]
	if len(recs) == 0 && (!u.o.Mirror || isAside(name)) {
		return false, nil // nobody but the user has to do with it
	}
	info, err := in.Lstat(name)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist), ignore(err, fs.ErrNotExist)
	}
	known, own, err := u.d.known(ctx, in, name, at, info)
	if err != nil {
		return false, err
	}
	if info.IsDir() {
		if gone, err = u.removeBelow(ctx, in, name, at, depth); err != nil || !gone {
			return false, err
		}
	}
	switch {
	case own, u.o.Mirror && (known || len(recs) == 0):
		if err := in.Remove(name); err != nil {
			return false, err
		}
		u.stats.Removed++
		return true, nil
	case known: // it was there before
		return false, nil
	case u.o.Mirror: // edited here
		return false, u.setAside(in, name, at)
	}
	u.stats.Left++
	return false, nil
}

// removeBelow calls remove for each entry of a directory, and reports whether it is empty then.
func (u *update) removeBelow(ctx context.Context, in *os.Root, name, at string, depth int) (empty bool, err error) {
	if depth == manifest.MaxNesting { // no update wrote that
		return false, nil
	}
	dir, err := extract.OpenBelow(in, name)
	if err != nil {
		return false, err
	}
	defer dir.Close()
	names, err := namesIn(dir)
	if err != nil {
		return false, err
	}
	empty = true
	for _, name := range names {
		gone, err := u.remove(ctx, dir, name, path.Join(at, name), depth+1)
		if err != nil {
			return false, err
		}
		empty = empty && gone
	}
	return empty, nil
}
