package extract

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"allium/protocols/status"
)

// What a get that was killed left is looked for among this many names of a
// directory, and so much of it is removed at a time.
const (
	leftoverNames = 10_000
	leftoverMost  = 100
)

// tempMark is in the name of what is being written, before tempRandom characters
// of base32.
const (
	tempMark   = ".allium-"
	tempRandom = 8
)

// isTempName reports whether name is one that tempName gives.
func isTempName(name string) bool {
	i := len(name) - tempRandom
	if i < 0 || name[0] != '.' || !strings.HasSuffix(name[:i], tempMark) || len(name) <= len(".")+len(tempMark)+tempRandom {
		return false
	}
	return strings.Trim(name[i:], "abcdefghijklmnopqrstuvwxyz234567") == ""
}

// sweep removes from a directory what a writer that is gone has left: files and
// directories with the name of one that is being written, which no process has
// locked. It does what it can.
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
			return // the end, among others
		}
	}
}

// sweepOne removes name unless somebody writes it.
func sweepOne(dir *os.Root, name string) bool {
	f, err := lockTemp(dir, name)
	if err != nil || f == nil {
		return false
	}
	defer f.Close()
	return dir.RemoveAll(name) == nil
}

// errTempGone says that what was just made was taken for a leftover.
var errTempGone error = status.Errorf(status.Busy, "manifest: another get took it for a leftover before it was locked; try again")

// lockTemp locks name, a file or directory being written, until what it returns
// is closed. That is nil where the system has no such locks, or name cannot be
// opened; errTempGone says that name is another file now, or none.
func lockTemp(dir *os.Root, name string) (*os.File, error) {
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
