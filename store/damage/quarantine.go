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
	"allium/store/fsys"
	"allium/store/meta"
)

// Bounds of quarantine/. What finds no place there stays where it is.
const (
	maxQuarantineBytes = 1 << 30
	maxQuarantineFiles = 1024
)

// ErrQuarantineFull reports that a file stays where it is.
var ErrQuarantineFull = status.Errorf(status.NoSpace, "the store's %s directory is full; look through it and delete what is not needed", fsys.DirQuarantine)

// Quarantine is where files go that nothing accounts for and that prove
// nothing. The store never reads them, and never removes one: that is for the
// operator to do.
type Quarantine struct {
	fs     vfs.FS
	dir    string // of the store
	log    *slog.Logger
	damage *List
	moving chan struct{} // one token: who holds it moves

	files, bytes atomic.Int64
}

// NewQuarantine returns the quarantine of the store in dir, which notes in list
// what it takes.
func NewQuarantine(f vfs.FS, dir string, log *slog.Logger, list *List) *Quarantine {
	return &Quarantine{fs: f, dir: dir, log: log, damage: list, moving: make(chan struct{}, 1)} // bound: one token
}

// Load counts what is there, when the store opens.
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

// Take moves those of the files that exist, which are one finding, and notes
// why. Where none exists it does nothing. It returns errQuarantineFull, or what
// the disk said, when one of them stays.
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
		q.log.Warn("a file that nothing accounts for stays where it is", "file", why.File, "err", failure)
	}
	q.damage.Add(why)
	return failure
}

// Put moves a file of which the damage is noted already.
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

// Below is a file's name below the store's directory.
func (q *Quarantine) Below(file string) string {
	return strings.TrimPrefix(strings.TrimPrefix(file, q.dir), "/")
}

// move moves one file, to a name that no other has there.
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

// Note notes damage of which no file is moved.
func (q *Quarantine) Note(why meta.Damage) { q.damage.Add(why) }

// Held returns how many files are in quarantine/, and their bytes.
func (q *Quarantine) Held() (files, bytes int64) { return q.files.Load(), q.bytes.Load() }
