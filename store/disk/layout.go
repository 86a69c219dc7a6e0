package disk

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"syscall"

	"allium/store/disk/blob"
	"allium/store/disk/segment/codec"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/protocols/status"
	"allium/store/disk/damage"
	"allium/store/disk/fsys"
	"allium/store/disk/segment"
	"allium/store/meta"
)

// formatVersion is the version that this program writes, and the newest that it
// reads.
const formatVersion = codec.Version

// formatNotes is the first version that has note files beside the files of downloads
// and uploads.
const formatNotes = 3

// formatHead is the first line of FORMAT. The second line is "format " and the
// version.
const formatHead = "allium store\n"

func formatText(version int) []byte { return fmt.Appendf(nil, "%sformat %d\n", formatHead, version) }

// parseFormat parses the content of FORMAT.
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

// layout is the directory of a store: its file names, its version and its lock.
type layout struct {
	fs        vfs.FS
	root      string
	badFormat string // what is wrong with FORMAT if the segments told the version
}

func (l *layout) path(elem ...string) string {
	return l.fs.PathJoin(append([]string{l.root}, elem...)...)
}

// version returns the version of the store, 0 if there is no store yet. If FORMAT is
// damaged or missing, the headers of the segments tell the version.
func (l *layout) version() (version int, err error) {
	p, err := fsys.ReadFile(l.fs, l.path(fsys.FileFormat))
	missing := errors.Is(err, fs.ErrNotExist)
	if err != nil && !missing {
		return 0, meta.OpenError(err)
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
		l.badFormat = fmt.Sprintf("FORMAT is damaged or missing (%.40q); the segments are of format %d", p, written)
		return written, nil
	case missing:
		return 0, l.checkVacant()
	case err != nil:
		return 0, err
	}
	return 0, status.Errorf(status.Unsupported,
		"%s has format %d and this program knows formats up to %d; use a newer allium: %w",
		l.root, version, formatVersion, ErrVersion)
}

// versionOfSegments returns the newest format of the segments. It returns 0 if there
// are none, or if one has a newer format than this program knows. A program with a
// newer format begins a new segment before it writes anything else.
func (l *layout) versionOfSegments() (version int, err error) {
	dir := l.path(fsys.DirSegments)
	names, err := l.fs.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, meta.OpenError(err)
	}
	for _, name := range names {
		if _, ok := codec.ParseFileName(name); !ok {
			continue
		}
		f, err := l.fs.Open(l.fs.PathJoin(dir, name))
		if err != nil {
			return 0, meta.OpenError(err)
		}
		v, newer, err := codec.VersionOf(f)
		_ = f.Close() // only read
		if err != nil || newer {
			return 0, err
		}
		version = max(version, v)
	}
	return version, nil
}

// checkVacant returns an error if a directory without FORMAT has anything in it but
// the beginning of a store.
func (l *layout) checkVacant() error {
	names, err := l.fs.List(l.root)
	if err != nil {
		return meta.OpenError(err)
	}
	for _, name := range names {
		switch name {
		case fsys.FileLock, segment.FileTail, damage.FileList, fsys.DirIndex, fsys.DirSegments, fsys.DirObjects,
			fsys.DirPart, fsys.DirTemp, fsys.DirQuarantine, fsys.DirBallast:
		default:
			return status.Errorf(status.Conflict, "%s is not a store and contains %q; choose an empty directory",
				l.root, name)
		}
	}
	dirs := []string{l.path(fsys.DirSegments)}
	for i := range 256 {
		dirs = append(dirs, l.objectDir(i))
	}
	for _, dir := range dirs {
		names, err := l.fs.List(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return meta.OpenError(err)
		}
		if len(names) > 0 {
			return status.Errorf(status.Corrupt,
				"%s contains objects but its %s file is missing; restore the file from a copy", l.root, fsys.FileFormat)
		}
	}
	return nil
}

// objectDir returns the directory of the objects whose address begins with byte i.
func (l *layout) objectDir(i int) string { return l.path(fsys.DirObjects, fmt.Sprintf("%02x", i)) }

// create makes the directories, durably. It first removes an index: without FORMAT,
// it is left from an interrupted creation, and nothing in it was acknowledged.
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

// upgrade sets FORMAT to formatVersion. The files of every older version are valid in
// it; recovery adds what they lack.
func (l *layout) upgrade(version int) error {
	if version >= formatVersion && l.badFormat == "" {
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

// lock locks the directory against other processes and other Stores of this process.
func (l *layout) lock() (io.Closer, error) {
	lock, err := l.fs.Lock(l.path(fsys.FileLock))
	var notOpened *fs.PathError
	switch {
	case err == nil:
		return lock, nil
	case errors.As(err, &notOpened), errors.Is(err, syscall.ENOSPC):
		return nil, meta.WriteError("lock "+l.root, err)
	}
	return nil, status.Errorf(status.Busy,
		"%s is locked: stop the node that uses it, or run the command through that node: %w (%v)",
		l.root, ErrLocked, err)
}
