package extract

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"allium/protocols/status"
)

// Bounds of one sweep of a directory for files that a killed process left.
const (
	leftoverNames = 10_000 // names that are read
	leftoverMost  = 100    // files and directories that are removed
)

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

// sweepOne removes name unless a process has locked it, and reports whether it did.
func sweepOne(dir *os.Root, name string) bool {
	f, err := LockTemp(dir, name)
	if err != nil || f == nil {
		return false
	}
	defer f.Close()
	return dir.RemoveAll(name) == nil
}

// errTempGone reports that another process removed a new temporary file as a leftover.
var errTempGone error = status.Errorf(status.Busy,
	"another get removed the temporary file before it was locked; try again")

// LockTemp locks the temporary file or directory name until the returned file is
// closed. The file is nil where the system has no such locks, or name cannot be opened.
// errTempGone reports that name was removed or replaced.
func LockTemp(dir *os.Root, name string) (*os.File, error) {
	info, err := dir.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errTempGone
	}
	if err != nil || !info.Mode().IsRegular() && !info.IsDir() {
		return nil, err
	}
	f, err := dir.Open(name)
	if err != nil {
		return nil, nil //nolint:nilerr // it stays without a lock, and is swept by nobody who cannot open it
	}
	if !lock(f) {
		_ = f.Close()
		return nil, nil
	}
	opened, err := f.Stat()
	now, gone := dir.Lstat(name)
	if err != nil || gone != nil || !os.SameFile(opened, now) || !os.SameFile(opened, info) {
		_ = f.Close()
		return nil, errTempGone
	}
	return f, nil
}
