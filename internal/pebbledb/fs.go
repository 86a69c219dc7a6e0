package pebbledb

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// guardedFS is a file system whose first write error is a failure of the
// database. From any failure on, changes succeed and reach nothing.
type guardedFS struct {
	vfs.FS
	f *Failure
}

// change makes a change unless the database has failed.
func (g guardedFS) change(do func() error) error {
	if g.f.isSet() {
		return nil
	}
	if err := do(); err != nil {
		g.f.refused(err)
	}
	return nil
}

// file guards what open returns.
func (g guardedFS) file(open func() (vfs.File, error)) (vfs.File, error) {
	if g.f.isSet() {
		return nowhere{}, nil
	}
	f, err := open()
	if err != nil {
		g.f.refused(err)
		return nowhere{}, nil
	}
	return guardedFile{f, g}, nil
}

func (g guardedFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return g.file(func() (vfs.File, error) { return g.FS.Create(name, c) })
}

func (g guardedFS) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return g.file(func() (vfs.File, error) { return g.FS.ReuseForWrite(old, name, c) })
}

func (g guardedFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	return g.file(func() (vfs.File, error) { return g.FS.OpenReadWrite(name, c, o...) })
}

func (g guardedFS) OpenDir(name string) (vfs.File, error) {
	f, err := g.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return guardedFile{f, g}, nil
}

func (g guardedFS) Link(old, name string) error {
	return g.change(func() error { return g.FS.Link(old, name) })
}

func (g guardedFS) Rename(old, name string) error {
	return g.change(func() error { return g.FS.Rename(old, name) })
}

func (g guardedFS) MkdirAll(dir string, perm os.FileMode) error {
	return g.change(func() error { return g.FS.MkdirAll(dir, perm) })
}

// Remove of a file that is not there is no refusal of the disk.
func (g guardedFS) Remove(name string) error { return g.remove(name, g.FS.Remove) }

func (g guardedFS) RemoveAll(name string) error { return g.remove(name, g.FS.RemoveAll) }

func (g guardedFS) remove(name string, by func(string) error) error {
	if g.f.isSet() {
		return nil
	}
	err := by(name)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		g.f.refused(err)
		return nil
	}
	return err
}

// guardedFile is a file of a guardedFS.
type guardedFile struct {
	vfs.File
	g guardedFS
}

func (f guardedFile) Write(p []byte) (int, error) {
	return len(p), f.g.change(func() error { _, err := f.File.Write(p); return err })
}

func (f guardedFile) WriteAt(p []byte, at int64) (int, error) {
	return len(p), f.g.change(func() error { _, err := f.File.WriteAt(p, at); return err })
}

func (f guardedFile) Sync() error     { return f.g.change(f.File.Sync) }
func (f guardedFile) SyncData() error { return f.g.change(f.File.SyncData) }

func (f guardedFile) SyncTo(n int64) (full bool, _ error) {
	return full, f.g.change(func() (err error) { full, err = f.File.SyncTo(n); return err })
}

// Preallocate is an optimisation.
func (f guardedFile) Preallocate(at, n int64) error {
	if !f.g.f.isSet() {
		_ = f.File.Preallocate(at, n) // a write that finds no room says so
	}
	return nil
}

// Close returns the memory and the descriptor in any case.
func (f guardedFile) Close() error {
	if err := f.File.Close(); err != nil {
		f.g.f.refused(err)
	}
	return nil
}

// nowhere is a file that takes everything and has nothing.
type nowhere struct{}

func (nowhere) Close() error                           { return nil }
func (nowhere) Read([]byte) (int, error)               { return 0, io.EOF }
func (nowhere) ReadAt([]byte, int64) (int, error)      { return 0, io.EOF }
func (nowhere) Write(p []byte) (int, error)            { return len(p), nil }
func (nowhere) WriteAt(p []byte, _ int64) (int, error) { return len(p), nil }
func (nowhere) Preallocate(int64, int64) error         { return nil }
func (nowhere) Stat() (vfs.FileInfo, error)            { return nothing{}, nil }
func (nowhere) Sync() error                            { return nil }
func (nowhere) SyncTo(int64) (bool, error)             { return false, nil }
func (nowhere) SyncData() error                        { return nil }
func (nowhere) Prefetch(int64, int64) error            { return nil }
func (nowhere) Fd() uintptr                            { return vfs.InvalidFd }

// nothing is what there is to know of such a file. Pebble asks for the size of a
// log that it uses again, and does not survive an error.
type nothing struct{}

func (nothing) Name() string           { return "" }
func (nothing) Size() int64            { return 0 }
func (nothing) Mode() fs.FileMode      { return 0o600 }
func (nothing) ModTime() time.Time     { return time.Time{} }
func (nothing) IsDir() bool            { return false }
func (nothing) Sys() any               { return nil }
func (nothing) DeviceID() vfs.DeviceID { return vfs.DeviceID{} }
