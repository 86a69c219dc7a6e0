package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/protocols/status"
)

// Names in a store's directory.
const (
	fileFormat  = "FORMAT"
	fileLock    = "LOCK"
	dirIndex    = "index"
	dirSegments = "seg"
	dirObjects  = "obj"
	dirPart     = "part"
	dirTemp     = "tmp"
)

// formatVersion is the version that this program writes, and the newest that it
// reads.
const formatVersion = 2

// formatHead is the first line of FORMAT; the second is "format " and the
// version.
const formatHead = "allium store\n"

func formatText(version int) []byte { return fmt.Appendf(nil, "%sformat %d\n", formatHead, version) }

// parseFormat reads FORMAT.
func parseFormat(p []byte) (version int, err error) {
	line, ok := bytes.CutPrefix(p, []byte(formatHead))
	if ok {
		digits := bytes.TrimSuffix(bytes.TrimPrefix(line, []byte("format ")), []byte("\n"))
		version, err = strconv.Atoi(string(digits))
		ok = err == nil && version > 0 && bytes.Equal(formatText(version), p)
	}
	if !ok {
		return 0, status.Errorf(status.Corrupt, "%s is not the version of an allium store: %.80q", fileFormat, p)
	}
	return version, nil
}

// checkFormat reads the version of the store, 0 when there is none yet.
func (d *disk) checkFormat() (version int, err error) {
	p, err := readFile(d.fs, d.path(fileFormat))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, d.checkVacant()
	}
	if err != nil {
		return 0, readError(err)
	}
	if version, err = parseFormat(p); err != nil {
		return 0, err
	}
	if version > formatVersion {
		return 0, status.Errorf(status.Unsupported, "%s has format %d and this program knows formats up to %d; use a newer allium: %w", d.cfg.Dir, version, formatVersion, ErrVersion)
	}
	return version, nil
}

// checkVacant refuses a directory without FORMAT that holds anything but the
// beginnings of a store.
func (d *disk) checkVacant() error {
	names, err := d.fs.List(d.cfg.Dir)
	if err != nil {
		return readError(err)
	}
	for _, name := range names {
		switch name {
		case fileLock, dirIndex, dirSegments, dirObjects, dirPart, dirTemp:
		default:
			return status.Errorf(status.Conflict, "%s is not a store and holds %q; choose an empty directory", d.cfg.Dir, name)
		}
	}
	dirs := []string{d.path(dirSegments)}
	for i := range 256 {
		dirs = append(dirs, d.objectDir(i))
	}
	for _, dir := range dirs {
		names, err := d.fs.List(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return readError(err)
		}
		if len(names) > 0 {
			return status.Errorf(status.Corrupt, "%s holds objects but its %s file is missing; restore the file from a copy", d.cfg.Dir, fileFormat)
		}
	}
	return nil
}

// objectDir is the directory of the objects whose address starts with byte i.
func (d *disk) objectDir(i int) string { return d.path(dirObjects, fmt.Sprintf("%02x", i)) }

// makeLayout creates the directories, durably. An index without FORMAT is the
// rest of a creation that was cut off: nothing was acknowledged.
func (d *disk) makeLayout() error {
	if err := d.fs.RemoveAll(d.path(dirIndex)); err != nil {
		return writeError("remove a directory", err)
	}
	dirs := []string{d.path(dirIndex), d.path(dirSegments), d.path(dirPart), d.path(dirTemp)}
	for i := range 256 {
		dirs = append(dirs, d.objectDir(i))
	}
	for _, dir := range dirs {
		if err := d.fs.MkdirAll(dir, 0o700); err != nil {
			return writeError("create a directory", err)
		}
	}
	if err := syncDir(d.fs, d.path(dirObjects)); err != nil {
		return err
	}
	return syncDir(d.fs, d.cfg.Dir)
}

// makeDir creates the store's directory, durably.
func makeDir(f vfs.FS, dir string) error {
	if _, err := f.Stat(dir); err == nil {
		return nil
	}
	if err := f.MkdirAll(dir, 0o700); err != nil {
		return writeError("create "+dir, err)
	}
	return syncDir(f, f.PathDir(dir))
}

// lockDir keeps other processes, and other Stores of this one, out of dir.
func lockDir(f vfs.FS, dir string) (io.Closer, error) {
	lock, err := f.Lock(f.PathJoin(dir, fileLock))
	var notOpened *fs.PathError
	switch {
	case err == nil:
		return lock, nil
	case errors.As(err, &notOpened), errors.Is(err, syscall.ENOSPC):
		return nil, writeError("lock "+dir, err)
	}
	return nil, status.Errorf(status.Busy, "%s is locked: stop the node that runs on it, or let it do the work: %w (%v)", dir, ErrLocked, err)
}

// emptyDir removes what a crash left in dir.
func emptyDir(f vfs.FS, dir string) error {
	names, err := f.List(dir)
	if err != nil {
		return readError(err)
	}
	for _, name := range names {
		if err := f.Remove(f.PathJoin(dir, name)); err != nil {
			return writeError("remove "+name, err)
		}
	}
	return nil
}

// readFile returns a short file whole.
func readFile(f vfs.FS, name string) ([]byte, error) {
	h, err := f.Open(name)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	return io.ReadAll(io.LimitReader(h, 4096))
}
