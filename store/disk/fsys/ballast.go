package fsys

import (
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/internal/ballast"
	"allium/protocols/status"
)

// Ballasted is a file system that finds space for the log, the index and changes of names on
// a full disk. When an operation finds no space, Ballasted deletes a file of the ballast and
// tries again, until the operation succeeds or no ballast is left. Writes to tmp/ and part/,
// which hold bytes of large objects, fail at once. The caller refills the ballast with
// Ballast.Fill.
type Ballasted struct {
	vfs.FS
	dir     string // the store's directory
	Ballast *ballast.Ballast
}

// NewBallast returns a file system above fs for the store in dir. Its ballast has size bytes
// when it is complete.
func NewBallast(fs vfs.FS, dir string, size int64) *Ballasted {
	return &Ballasted{FS: fs, dir: dir, Ballast: ballast.New(fs, fs.PathJoin(dir, DirBallast), size)}
}

// Unwrap implements [vfs.FS].
func (f *Ballasted) Unwrap() vfs.FS { return f.FS }

// Full reports whether err says that the disk has no space left.
func Full(err error) bool {
	o, ok := status.System(err)
	return ok && o == status.NoSpace
}

// mayRelease reports whether an operation on name may use the ballast.
func (f *Ballasted) mayRelease(name string) bool {
	rel, err := filepath.Rel(f.dir, name)
	if err != nil {
		return false
	}
	top, _, _ := strings.Cut(filepath.ToSlash(rel), "/")
	return top != DirTemp && top != DirPart
}

// withBallast runs op on name. While op finds no space, it releases ballast and runs op again.
func withBallast[T any](f *Ballasted, name string, op func() (T, error)) (T, error) {
	v, err := op()
	for Full(err) && f.mayRelease(name) && f.Ballast.Release() {
		v, err = op()
	}
	return v, err
}

// do is withBallast for an op without a result.
func (f *Ballasted) do(name string, op func() error) error {
	_, err := withBallast(f, name, func() (struct{}, error) { return struct{}{}, op() })
	return err
}

// file wraps a file that was opened as name: its writes may use the ballast.
func (f *Ballasted) file(name string, file vfs.File, err error) (vfs.File, error) {
	if err != nil || !f.mayRelease(name) {
		return file, err
	}
	return &ballastFile{File: file, Ballast: f.Ballast}, nil
}

// Create implements [vfs.FS].
func (f *Ballasted) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := withBallast(f, name, func() (vfs.File, error) { return f.FS.Create(name, c) })
	return f.file(name, file, err)
}

// OpenReadWrite implements [vfs.FS].
func (f *Ballasted) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	file, err := withBallast(f, name, func() (vfs.File, error) { return f.FS.OpenReadWrite(name, c, opts...) })
	return f.file(name, file, err)
}

// ReuseForWrite implements [vfs.FS].
func (f *Ballasted) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := withBallast(f, name, func() (vfs.File, error) { return f.FS.ReuseForWrite(old, name, c) })
	return f.file(name, file, err)
}

// Link implements [vfs.FS].
func (f *Ballasted) Link(old, name string) error {
	return f.do(name, func() error { return f.FS.Link(old, name) })
}

// Rename implements [vfs.FS].
func (f *Ballasted) Rename(old, name string) error {
	return f.do(name, func() error { return f.FS.Rename(old, name) })
}

// Remove implements [vfs.FS]. It may use the ballast for any name, as some file systems need
// space to delete a file.
func (f *Ballasted) Remove(name string) error {
	return f.do(f.dir, func() error { return f.FS.Remove(name) })
}

// RemoveAll implements [vfs.FS]. It may use the ballast for any name, as Remove does.
func (f *Ballasted) RemoveAll(name string) error {
	return f.do(f.dir, func() error { return f.FS.RemoveAll(name) })
}

// MkdirAll implements [vfs.FS].
func (f *Ballasted) MkdirAll(name string, perm os.FileMode) error {
	return f.do(name, func() error { return f.FS.MkdirAll(name, perm) })
}

// Lock implements [vfs.FS].
func (f *Ballasted) Lock(name string) (io.Closer, error) {
	return withBallast(f, name, func() (io.Closer, error) { return f.FS.Lock(name) })
}

// ballastFile is a file whose writes may use the ballast. A failed sync is not tried again:
// which bytes are on the disk is unknown after it.
type ballastFile struct {
	vfs.File
	Ballast *ballast.Ballast
}

// Write implements [vfs.File].
func (f *ballastFile) Write(p []byte) (n int, err error) {
	n, err = f.File.Write(p)
	for Full(err) && f.Ballast.Release() {
		var more int
		more, err = f.File.Write(p[n:])
		n += more
	}
	return n, err
}

// WriteAt implements [vfs.File].
func (f *ballastFile) WriteAt(p []byte, off int64) (n int, err error) {
	n, err = f.File.WriteAt(p, off)
	for Full(err) && f.Ballast.Release() {
		var more int
		more, err = f.File.WriteAt(p[n:], off+int64(n))
		n += more
	}
	return n, err
}

// Bare returns f without the wrapper of Ballasted, for writes that must not use the ballast.
func Bare(f vfs.File) vfs.File {
	if b, ok := f.(*ballastFile); ok {
		return b.File
	}
	return f
}
