package extract

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"allium/protocols/manifest"
)

// Move makes the target of the file at path instead of copying its bytes: it gives the
// file the permissions and the time of a new one, and Commit renames it. After Abort the
// file is back at path. The caller has proved its bytes, and nobody writes to it or
// replaces it any more.
//
// Move reports false and changes nothing when the bytes have to be copied: the file is
// not below the parent directory of the target or not on its file system, does not have
// exactly size bytes, or has other names or another owner than a new file.
func (x *Extractor) Move(path string, size int64, executable bool) (moved bool, err error) {
	source := x.belowParent(path)
	if source == "" {
		return false, nil
	}
	info, err := x.parent.Lstat(source)
	if err != nil || !info.Mode().IsRegular() || info.Size() != size {
		return false, nil //nolint:nilerr // the reader of the copy gets the error
	}
	err = x.do("", manifest.File, func(dir *os.Root, _ string) error {
		like, err := x.createLike(dir, executable)
		if err != nil || !movable(info, like) {
			return err
		}
		moved = true
		return x.adopt(source, like)
	})
	return moved && err == nil, err
}

// belowParent returns the path of a file from the parent of the target on, or "".
func (x *Extractor) belowParent(path string) string {
	parent, err := filepath.Abs(x.parent.Name())
	if err != nil {
		return ""
	}
	if rel, err := filepath.Rel(parent, path); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return ""
}

// createLike describes what FileBy would create: it creates the sibling, empty, and
// removes it.
func (x *Extractor) createLike(dir *os.Root, executable bool) (os.FileInfo, error) {
	name := tempName(x.base)
	f, keep, err := createBeside(dir, name, x.replaces(), executable)
	if err != nil {
		return nil, err
	}
	defer f.Close() // nothing was written
	err = keep(f)
	info, statErr := f.Stat()
	return info, errors.Join(err, statErr, ignore(dir.Remove(name), fs.ErrNotExist))
}

// adopt puts the file at source in the place of the sibling, with the permissions of like.
func (x *Extractor) adopt(source string, like os.FileInfo) error {
	x.tmp, x.begun, x.adopted = source, true, true
	if err := x.parent.Chmod(source, like.Mode().Perm()); err != nil {
		return err
	}
	now := time.Now()
	if err := x.parent.Chtimes(source, now, now); err != nil || !x.opts.Sync {
		return err
	}
	f, err := x.parent.Open(source)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
