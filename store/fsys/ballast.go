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

// Ballasted is a file system on which the log, the index and names find space
// also when the disk is full: a write that finds none is tried again after each
// file of the ballast that is removed for it. Not so the bytes of large objects,
// in tmp/ and part/: they are refused.
type Ballasted struct {
	vfs.FS
	dir     string // of the store
	Ballast *ballast.Ballast
}

// NewBallast returns a file system for the store in dir, with a ballast of
// that many bytes in it.
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

// entitled reports whether what is written to name may use the ballast up.
func (f *Ballasted) entitled(name string) bool {
	rel, err := filepath.Rel(f.dir, name)
	if err != nil {
		return false
	}
	top, _, _ := strings.Cut(filepath.ToSlash(rel), "/")
	return top != DirTemp && top != DirPart
}

// using runs op until there is space for it or no ballast left.
func using[T any](f *Ballasted, name string, op func() (T, error)) (T, error) {
	v, err := op()
	for Full(err) && f.entitled(name) && f.Ballast.Release() {
		v, err = op()
	}
	return v, err
}

func (f *Ballasted) do(name string, op func() error) error {
	_, err := using(f, name, func() (struct{}, error) { return struct{}{}, op() })
	return err
}

// file makes writes to a file of the log or the index use the ballast.
func (f *Ballasted) file(name string, file vfs.File, err error) (vfs.File, error) {
	if err != nil || !f.entitled(name) {
		return file, err
	}
	return &ballastFile{File: file, Ballast: f.Ballast}, nil
}

// Create implements [vfs.FS].
func (f *Ballasted) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := using(f, name, func() (vfs.File, error) { return f.FS.Create(name, c) })
	return f.file(name, file, err)
}

// OpenReadWrite implements [vfs.FS].
func (f *Ballasted) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	file, err := using(f, name, func() (vfs.File, error) { return f.FS.OpenReadWrite(name, c, opts...) })
	return f.file(name, file, err)
}

// ReuseForWrite implements [vfs.FS].
func (f *Ballasted) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := using(f, name, func() (vfs.File, error) { return f.FS.ReuseForWrite(old, name, c) })
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

// Remove implements [vfs.FS]. Some file systems need space to give space back.
func (f *Ballasted) Remove(name string) error {
	return f.do(f.dir, func() error { return f.FS.Remove(name) })
}

// RemoveAll implements [vfs.FS].
func (f *Ballasted) RemoveAll(name string) error {
	return f.do(f.dir, func() error { return f.FS.RemoveAll(name) })
}

// MkdirAll implements [vfs.FS].
func (f *Ballasted) MkdirAll(name string, perm os.FileMode) error {
	return f.do(name, func() error { return f.FS.MkdirAll(name, perm) })
}

// Lock implements [vfs.FS].
func (f *Ballasted) Lock(name string) (io.Closer, error) {
	return using(f, name, func() (io.Closer, error) { return f.FS.Lock(name) })
}

// ballastFile is a file whose writes may use up the ballast. A sync that fails
// is not tried again: what is on the disk is not known then.
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

// Bare is f for writes that must not use up the ballast.
func Bare(f vfs.File) vfs.File {
	if b, ok := f.(*ballastFile); ok {
		return b.File
	}
	return f
}
