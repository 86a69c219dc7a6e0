package extract

import (
	"os"
	"path/filepath"
	"time"

	"allium/protocols/manifest"
)

// Move makes the sibling of the file at path instead of copying its bytes: it gives the
// file the permissions and the time of a new one and renames it. Commit follows; Abort
// puts the file back. The caller has proved its bytes, and nobody writes to it any more.
//
// Move reports false and changes nothing when the bytes have to be copied: the file is
// not below the parent directory of the target or not on its file system, does not have
// exactly size bytes, has other names or another owner than a new file, or is locked.
func (x *Extractor) Move(path string, size int64, executable bool) (moved bool, err error) {
	source := x.belowParent(path)
	if source == "" {
		return false, nil
	}
	file, err := LockTemp(x.parent, source)
	if err != nil || file == nil {
		return false, nil //nolint:nilerr // the reader of the copy gets the error
	}
	err = x.do("", manifest.File, func(dir *os.Root, name string) error {
		like, err := x.createLike(dir, name, executable)
		if err != nil || like == nil {
			return err
		}
		if moved = x.replaceTemp(source, file, like, size); !moved {
			return x.dropTemp()
		}
		now := time.Now()
		return x.parent.Chtimes(x.tmp, now, now)
	})
	if !moved {
		_ = file.Close() // only locked
	}
	return moved, err
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

// createLike creates the sibling, empty and locked, and describes it. It returns nil if
// the sibling cannot be locked.
func (x *Extractor) createLike(dir *os.Root, name string, executable bool) (os.FileInfo, error) {
	f, keep, err := createBeside(dir, name, x.replaces(), executable)
	if err != nil {
		return nil, err
	}
	defer f.Close() // nothing is written
	x.begun = true
	if err := x.lockTemp(); err != nil {
		return nil, err
	}
	if x.lock == nil {
		return nil, x.dropTemp()
	}
	if err := keep(); err != nil {
		return nil, err
	}
	return f.Stat()
}

// replaceTemp renames the file at source, which is open and locked, to the sibling, with
// the permissions of like. It reports whether it did.
func (x *Extractor) replaceTemp(source string, file *os.File, like os.FileInfo, size int64) bool {
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() != size || !movable(info, like) {
		return false
	}
	if file.Chmod(like.Mode().Perm()) != nil || x.opts.Sync && file.Sync() != nil {
		return false
	}
	if x.parent.Rename(source, x.tmp) != nil {
		return false
	}
	x.unlockTemp()
	x.lock, x.from = file, source
	return true
}

// dropTemp removes the sibling, so that another one can be created.
func (x *Extractor) dropTemp() error {
	x.unlockTemp()
	x.begun = false
	return x.parent.Remove(x.tmp)
}
