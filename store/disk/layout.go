package disk

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"syscall"

	"allium/store/blob"
	"allium/store/segment/record"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/protocols/status"
	"allium/store/damage"
	"allium/store/fsys"
	"allium/store/meta"
	"allium/store/segment"
)

// formatVersion is the version that this program writes, and the newest that it
// reads.
const formatVersion = record.Version

// formatNotes is the first version that keeps what is known of downloads and
// uploads in notes beside their files.
const formatNotes = 3

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
		return 0, status.Errorf(status.Corrupt, "%s is not the version of an allium store: %.80q", fsys.FileFormat, p)
	}
	return version, nil
}

// layout is the directory of a store: its names, its version, its lock.
type layout struct {
	fs   vfs.FS
	root string
	bad  string // what is wrong with FORMAT, where it could be told
}

func (l *layout) path(elem ...string) string {
	return l.fs.PathJoin(append([]string{l.root}, elem...)...)
}

// version reads the version of the store, 0 when there is none yet. A file
// that is damaged or missing is told from the segments: their headers say the
// version too.
func (l *layout) version() (version int, err error) {
	p, err := fsys.ReadFile(l.fs, l.path(fsys.FileFormat))
	missing := errors.Is(err, fs.ErrNotExist)
	if err != nil && !missing {
		return 0, meta.ReadError(err)
	}
	if !missing {
		if version, err = parseFormat(p); err == nil && version <= formatVersion {
			return version, nil
		}
	}
	written, e := l.versionOfSegments()
	if e != nil {
		return 0, e
	}
	switch {
	case written > 0:
		l.bad = fmt.Sprintf("FORMAT is damaged or missing (%.40q); the segments are of format %d", p, written)
		return written, nil
	case missing:
		return 0, l.checkVacant()
	case err != nil:
		return 0, err
	}
	return 0, status.Errorf(status.Unsupported, "%s has format %d and this program knows formats up to %d; use a newer allium: %w", l.root, version, formatVersion, ErrVersion)
}

// versionOfSegments is the format that the segments have, 0 where there are none or
// one of them is of a newer format. A program of a newer format begins a segment
// of its own before it writes anything else.
func (l *layout) versionOfSegments() (version int, err error) {
	dir := l.path(fsys.DirSegments)
	names, err := l.fs.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, meta.ReadError(err)
	}
	for _, name := range names {
		if _, ok := record.ParseFileName(name); !ok {
			continue
		}
		f, err := l.fs.Open(l.fs.PathJoin(dir, name))
		if err != nil {
			return 0, meta.ReadError(err)
		}
		v, newer, err := record.VersionOf(f)
		_ = f.Close() // was only read
		if err != nil || newer {
			return 0, err
		}
		version = max(version, v)
	}
	return version, nil
}

// checkVacant refuses a directory without FORMAT that holds anything but the
// beginnings of a store.
func (l *layout) checkVacant() error {
	names, err := l.fs.List(l.root)
	if err != nil {
		return meta.ReadError(err)
	}
	for _, name := range names {
		switch name {
		case fsys.FileLock, segment.FileTail, damage.FileList, fsys.DirIndex, fsys.DirSegments, fsys.DirObjects, fsys.DirPart, fsys.DirTemp, fsys.DirQuarantine, fsys.DirBallast:
		default:
			return status.Errorf(status.Conflict, "%s is not a store and holds %q; choose an empty directory", l.root, name)
		}
	}
	dirs := []string{l.path(fsys.DirSegments)}
	for i := range 256 {
		dirs = append(dirs, l.objectDir(i))
	}
	for _, dir := range dirs {
		names, err := l.fs.List(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return meta.ReadError(err)
		}
		if len(names) > 0 {
			return status.Errorf(status.Corrupt, "%s holds objects but its %s file is missing; restore the file from a copy", l.root, fsys.FileFormat)
		}
	}
	return nil
}

// objectDir is the directory of the objects whose address starts with byte i.
func (l *layout) objectDir(i int) string { return l.path(fsys.DirObjects, fmt.Sprintf("%02x", i)) }

// create makes the directories, durably. An index without FORMAT is the
// rest of a creation that was cut off: nothing was acknowledged.
func (l *layout) create() error {
	if err := l.fs.RemoveAll(l.path(fsys.DirIndex)); err != nil {
		return meta.WriteError("remove a directory", err)
	}
	dirs := []string{l.path(fsys.DirIndex), l.path(fsys.DirSegments), l.path(fsys.DirPart), l.path(fsys.DirTemp)}
	for i := range 256 {
		dirs = append(dirs, l.objectDir(i))
	}
	for _, dir := range dirs {
		if err := l.fs.MkdirAll(dir, 0o700); err != nil {
			return meta.WriteError("create a directory", err)
		}
	}
	if err := fsys.SyncDir(l.fs, l.path(fsys.DirObjects)); err != nil {
		return err
	}
	return fsys.SyncDir(l.fs, l.root)
}

// bringForward makes FORMAT say this version. What is there is valid in it;
// recovery completes it.
func (l *layout) bringForward(version int) error {
	if version >= formatVersion && l.bad == "" {
		return nil
	}
	if version < formatNotes {
		if err := blob.MarkUnnoted(l.fs, l.root); err != nil {
			return err
		}
	}
	return l.writeFormat()
}

func (l *layout) writeFormat() error {
	return fsys.ReplaceFile(l.fs, l.root, fsys.FileFormat, formatText(formatVersion))
}

// lock keeps other processes, and other Stores of this one, out of the directory.
func (l *layout) lock() (io.Closer, error) {
	lock, err := l.fs.Lock(l.path(fsys.FileLock))
	var notOpened *fs.PathError
	switch {
	case err == nil:
		return lock, nil
	case errors.As(err, &notOpened), errors.Is(err, syscall.ENOSPC):
		return nil, meta.WriteError("lock "+l.root, err)
	}
	return nil, status.Errorf(status.Busy, "%s is locked: stop the node that runs on it, or let it do the work: %w (%v)", l.root, ErrLocked, err)
}
