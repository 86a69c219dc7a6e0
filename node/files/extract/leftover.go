package extract

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"time"

	"allium/protocols/status"
)

// Bounds of one sweep of a directory for files that a killed process left.
const (
	leftoverNames = 10_000          // names that are read
	leftoverMost  = 100             // files and directories that are removed
	leftoverAge   = 5 * time.Second // of files: a node may have moved a younger one there, which nobody has locked yet
)

// tempTries bounds how often a temporary file is created again because another process took it for a leftover.
const tempTries = 20

// tempMark stands in every temporary name, before tempRandom characters of base32.
const (
	tempMark   = ".allium-"
	tempRandom = 8
)

// isTempName reports whether tempName could have returned name.
func isTempName(name string) bool {
	i := len(name) - tempRandom
	if i < 0 || name[0] != '.' || !strings.HasSuffix(name[:i], tempMark) ||
		len(name) <= len(".")+len(tempMark)+tempRandom {
		return false
	}
	return strings.Trim(name[i:], "abcdefghijklmnopqrstuvwxyz234567") == ""
}

// sweep removes leftovers of killed processes from a directory: files and directories
// with a temporary name that no process has locked. It ignores errors.
func sweep(dir *os.Root) {
	d, err := dir.Open(".")
	if err != nil {
		return
	}
	defer d.Close()
	removed := 0
	for seen := 0; seen < leftoverNames && removed < leftoverMost; {
		names, err := d.Readdirnames(256)
		seen += len(names)
		for _, name := range names {
			if isTempName(name) && removed < leftoverMost && sweepOne(dir, name) {
				removed++
			}
		}
		if err != nil {
			return // io.EOF or a failure
		}
	}
}

// sweepOne removes name unless a process has locked it or it is a young file, and reports whether it did.
func sweepOne(dir *os.Root, name string) bool {
	info, err := dir.Lstat(name)
	if err != nil || info.Mode().IsRegular() && time.Since(info.ModTime()) < leftoverAge {
		return false
	}
	f, err := LockTemp(dir, name)
	if err != nil || f == nil {
		return false
	}
	defer f.Close()
	return dir.RemoveAll(name) == nil
}

// ErrTempTaken reports that another process removes a new temporary file as a leftover.
var ErrTempTaken error = status.Errorf(status.Busy,
	"other commands remove the temporary files here before they can be locked; try again")

// temp is a new temporary file or directory.
type temp struct {
	name string
	file *os.File // what create returned
	lock *os.File // holds the lock; nil: the file system has none
}

// createTemp creates the temporary file or directory of base with create, and locks it. The sweep of another process
// may take it before it is locked; then createTemp creates another one.
func createTemp(in *os.Root, base string, create func(name string) (*os.File, error)) (temp, error) {
	for range tempTries {
		t := temp{name: tempName(base)}
		var err error
		if t.file, err = create(t.name); err != nil {
			return temp{}, err
		}
		if t.lock, err = LockTemp(in, t.name); err == nil {
			return t, nil
		}
		if t.file != nil {
			_ = t.file.Close() // nothing was written to it
		}
		if gone := in.RemoveAll(t.name); !errors.Is(err, ErrTempTaken) || gone != nil {
			return temp{}, errors.Join(err, gone)
		}
	}
	return temp{}, ErrTempTaken
}

// LockTemp locks the temporary file or directory name until the returned file is
// closed. The file is nil where the system has no such locks, or name cannot be opened.
// ErrTempTaken reports that name was removed or replaced, or that another process has locked it.
func LockTemp(dir *os.Root, name string) (*os.File, error) {
	info, err := dir.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrTempTaken
	}
	if err != nil || !info.Mode().IsRegular() && !info.IsDir() {
		return nil, err
	}
	f, err := dir.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrTempTaken
	}
	if err != nil {
		return nil, nil //nolint:nilerr // it stays without a lock, and is swept by nobody who cannot open it
	}
	locked, err := lock(f)
	if err != nil || !locked {
		_ = f.Close()
		return nil, err
	}
	opened, err := f.Stat()
	now, gone := dir.Lstat(name)
	if err != nil || gone != nil || !os.SameFile(opened, now) || !os.SameFile(opened, info) {
		_ = f.Close()
		return nil, ErrTempTaken
	}
	return f, nil
}
