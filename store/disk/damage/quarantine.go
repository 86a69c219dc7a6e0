package damage

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/protocols/status"
	"allium/store/disk/fsys"
	"allium/store/meta"
)

// Bounds of quarantine/. A file that would exceed them stays where it is.
const (
	maxQuarantineBytes = 1 << 30
	maxQuarantineFiles = 1024
)

// ErrQuarantineFull reports that quarantine/ is full, so that a file stays where it is.
var ErrQuarantineFull = status.Errorf(status.NoSpace,
	"the store's %s directory is full; look through it and delete what is not needed", fsys.DirQuarantine)

// Quarantine holds files that no record of the store accounts for and that cannot be verified.
// The store never reads or removes a file there: the operator does. Methods may be called
// concurrently.
type Quarantine struct {
	fs     vfs.FS
	dir    string // of the store
	log    *slog.Logger
	damage *List
	moving chan struct{} // has a token while a call moves files

	files, bytes atomic.Int64 // in quarantine/
}

// NewQuarantine returns the quarantine of the store in dir. It adds its findings to list.
func NewQuarantine(f vfs.FS, dir string, log *slog.Logger, list *List) *Quarantine {
	return &Quarantine{fs: f, dir: dir, log: log, damage: list, moving: make(chan struct{}, 1)} // bound: one token
}

// Load counts the files in quarantine/ and their bytes. The store calls it when it opens.
func (q *Quarantine) Load() error {
	names, err := q.fs.List(q.path())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return meta.ReadError(err)
	}
	for _, name := range names {
		if info, err := q.fs.Stat(q.fs.PathJoin(q.path(), name)); err == nil {
			q.files.Add(1)
			q.bytes.Add(info.Size())
		}
	}
	return nil
}

func (q *Quarantine) path() string { return q.fs.PathJoin(q.dir, fsys.DirQuarantine) }

// Take moves those of files that exist to quarantine/ and adds why as one finding for all of
// them. It does nothing when none exists. When a file cannot be moved, it and those after it
// stay where they are, and Take returns ErrQuarantineFull or the error of the disk; the
// finding is added all the same.
func (q *Quarantine) Take(why meta.Damage, files ...string) error {
	q.moving <- struct{}{} // held for a few renames and a sync
	defer func() { <-q.moving }()
	var moved []string
	var failure error
	found := false
	for _, file := range files {
		info, err := q.fs.Stat(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if !found {
			found = true
			if why.File == "" {
				why.File = q.Below(file)
			}
		}
		if err == nil && failure == nil {
			var name string
			if name, err = q.move(file, info.Size()); err == nil {
				moved = append(moved, name)
			}
		}
		if failure == nil && err != nil {
			failure = meta.WriteError("move a file", err)
		}
	}
	if !found {
		return nil
	}
	if len(moved) > 0 {
		if err := fsys.SyncDir(q.fs, q.path()); err != nil && failure == nil {
			failure = err
		}
		why.Reason += "; see " + strings.Join(moved, ", ")
	}
	if failure != nil {
		q.log.Warn("cannot move a file that belongs to no object to quarantine/; it stays where it is",
			"file", why.File, "err", failure)
	}
	q.damage.Add(why)
	return failure
}

// Put moves a file to quarantine/ without adding a finding: the list has one already.
func (q *Quarantine) Put(file string) error {
	q.moving <- struct{}{} // held for a rename and a sync
	defer func() { <-q.moving }()
	info, err := q.fs.Stat(file)
	if err == nil {
		_, err = q.move(file, info.Size())
	}
	if err == nil {
		err = fsys.SyncDir(q.fs, q.path())
	}
	return err
}

// Below returns the path of a file relative to the store's directory.
func (q *Quarantine) Below(file string) string {
	return strings.TrimPrefix(strings.TrimPrefix(file, q.dir), "/")
}

// move moves one file of size bytes to quarantine/, under its name and the first free number.
// It returns the new path, relative to the store's directory. The caller syncs quarantine/.
func (q *Quarantine) move(file string, size int64) (name string, err error) {
	if q.files.Load() >= maxQuarantineFiles || q.bytes.Load()+size > maxQuarantineBytes {
		return "", ErrQuarantineFull
	}
	if err := fsys.MakeDir(q.fs, q.path()); err != nil {
		return "", err
	}
	for n := 1; ; n++ {
		name = fmt.Sprintf("%s.%d", q.fs.PathBase(file), n)
		if _, err := q.fs.Stat(q.fs.PathJoin(q.path(), name)); errors.Is(err, fs.ErrNotExist) {
			break
		} else if err != nil {
			return "", err
		}
	}
	if err := q.fs.Rename(file, q.fs.PathJoin(q.path(), name)); err != nil {
		return "", err
	}
	q.files.Add(1)
	q.bytes.Add(size)
	q.damage.Count.quarantined.Add(1)
	return q.fs.PathJoin(fsys.DirQuarantine, name), nil
}

// Note adds a finding without moving a file.
func (q *Quarantine) Note(why meta.Damage) { q.damage.Add(why) }

// Held returns how many files are in quarantine/ and the sum of their sizes in bytes.
func (q *Quarantine) Held() (files, bytes int64) { return q.files.Load(), q.bytes.Load() }
