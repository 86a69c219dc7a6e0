package reading

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"allium/protocols/status"
)

// restorer is a content whose file can be moved out of the store, which then copies it back; see
// [store.Object.MoveAndRestore].
type restorer interface {
	filler
	MoveAndRestore(ctx context.Context, check, move func(path string) error) error
}

// errNotLike reports that the output and the file of the store cannot change places.
var errNotLike = status.Errorf(status.Unsupported, "the file of the store cannot be moved to the output")

// movesTo reports whether a file of the store may replace the output f at path, as far as that is known
// before the file is there.
func (a *Reader) movesTo(f *os.File, path string) bool {
	if a.opt.RestoresIn == "" || !isAt(f, path) {
		return false
	}
	dir, err := os.Stat(a.opt.RestoresIn)
	if err != nil {
		return false
	}
	info, err := f.Stat()
	return err == nil && ownedHere(info) && sameDevice(info, dir)
}

// isAt reports whether path is an absolute path of f.
func isAt(f *os.File, path string) bool {
	if !filepath.IsAbs(path) {
		return false
	}
	info, err := f.Stat()
	if err != nil {
		return false
	}
	at, err := os.Lstat(path)
	return err == nil && os.SameFile(info, at)
}

// moveTo replaces the output f at path by the file of the store, with the permissions of f and a new
// time. After an error, f is as it was and r can be read.
func moveTo(ctx context.Context, r restorer, f *os.File, path string) error {
	return r.MoveAndRestore(ctx, func(from string) error {
		info, err := f.Stat()
		if err != nil {
			return err
		}
		file, err := os.Lstat(from)
		if err != nil {
			return err
		}
		if !file.Mode().IsRegular() || !alike(file, info) || !isAt(f, path) {
			return errNotLike
		}
		return nil
	}, func(from string) error {
		info, err := f.Stat()
		if err != nil {
			return err
		}
		if err := os.Chmod(from, info.Mode().Perm()); err != nil {
			return err
		}
		now := time.Now()
		if err := os.Chtimes(from, now, now); err != nil {
			return err
		}
		if !isAt(f, path) {
			return errNotLike
		}
		return os.Rename(from, path)
	})
}
