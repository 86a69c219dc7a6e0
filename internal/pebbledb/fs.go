package pebbledb

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// guardedFS is a file system whose first write error sets the failure of the database.
// After any failure, changes report success and do nothing.
type guardedFS struct {
	vfs.FS
	failure *Failure
}

// change runs do, a change of the disk, unless the database has failed. It always reports
// success.
func (g guardedFS) change(do func() error) error {
	if g.failure.isSet() {
		return nil
	}
	if err := do(); err != nil {
		g.failure.diskRefused(err)
	}
	return nil
}

// guard opens a file for writing. Once the database has failed, the file discards.
func (g guardedFS) guard(open func() (vfs.File, error)) (vfs.File, error) {
	if g.failure.isSet() {
		return discardFile{}, nil
	}
	f, err := open()
	if err != nil {
		g.failure.diskRefused(err)
		return discardFile{}, nil
	}
	return guardedFile{f, g}, nil
}

func (g guardedFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return g.guard(func() (vfs.File, error) { return g.FS.Create(name, c) })
}

func (g guardedFS) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return g.guard(func() (vfs.File, error) { return g.FS.ReuseForWrite(old, name, c) })
}

func (g guardedFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	return g.guard(func() (vfs.File, error) { return g.FS.OpenReadWrite(name, c, o...) })
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

// Remove does not treat a missing file as a refusal of the disk.
func (g guardedFS) Remove(name string) error { return g.remove(name, g.FS.Remove) }

func (g guardedFS) RemoveAll(name string) error { return g.remove(name, g.FS.RemoveAll) }

func (g guardedFS) remove(name string, by func(string) error) error {
	if g.failure.isSet() {
		return nil
	}
	err := by(name)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		g.failure.diskRefused(err)
		return nil
	}
	return err
}

// guardedFile is an open file of a guardedFS.
type guardedFile struct {
	vfs.File
	fs guardedFS
}

func (f guardedFile) Write(p []byte) (int, error) {
	return len(p), f.fs.change(func() error { _, err := f.File.Write(p); return err })
}

func (f guardedFile) WriteAt(p []byte, at int64) (int, error) {
	return len(p), f.fs.change(func() error { _, err := f.File.WriteAt(p, at); return err })
}

func (f guardedFile) Sync() error     { return f.fs.change(f.File.Sync) }
func (f guardedFile) SyncData() error { return f.fs.change(f.File.SyncData) }

func (f guardedFile) SyncTo(n int64) (full bool, _ error) {
	return full, f.fs.change(func() (err error) { full, err = f.File.SyncTo(n); return err })
}

// Preallocate ignores errors: a later write reports missing space.
func (f guardedFile) Preallocate(at, n int64) error {
	if !f.fs.failure.isSet() {
		_ = f.File.Preallocate(at, n)
	}
	return nil
}

// Close always frees the memory and the descriptor.
func (f guardedFile) Close() error {
	if err := f.File.Close(); err != nil {
		f.fs.failure.diskRefused(err)
	}
	return nil
}

// discardFile is an empty file that discards writes.
type discardFile struct{}

func (discardFile) Close() error                           { return nil }
func (discardFile) Read([]byte) (int, error)               { return 0, io.EOF }
func (discardFile) ReadAt([]byte, int64) (int, error)      { return 0, io.EOF }
func (discardFile) Write(p []byte) (int, error)            { return len(p), nil }
func (discardFile) WriteAt(p []byte, _ int64) (int, error) { return len(p), nil }
func (discardFile) Preallocate(int64, int64) error         { return nil }
func (discardFile) Stat() (vfs.FileInfo, error)            { return emptyInfo{}, nil }
func (discardFile) Sync() error                            { return nil }
func (discardFile) SyncTo(int64) (bool, error)             { return false, nil }
func (discardFile) SyncData() error                        { return nil }
func (discardFile) Prefetch(int64, int64) error            { return nil }
func (discardFile) Fd() uintptr                            { return vfs.InvalidFd }

// emptyInfo describes a discardFile. Pebble asks for the size of a log that it reuses, and
// does not survive an error.
type emptyInfo struct{}

func (emptyInfo) Name() string           { return "" }
func (emptyInfo) Size() int64            { return 0 }
func (emptyInfo) Mode() fs.FileMode      { return 0o600 }
func (emptyInfo) ModTime() time.Time     { return time.Time{} }
func (emptyInfo) IsDir() bool            { return false }
func (emptyInfo) Sys() any               { return nil }
func (emptyInfo) DeviceID() vfs.DeviceID { return vfs.DeviceID{} }
