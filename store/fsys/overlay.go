package fsys

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// overlayBytes bounds what an overlayFS holds of files that it did not make: the
// changes to the end of the log, and to nothing else.
const overlayBytes = 1 << 20

// Overlay shows the files of another file system, on which it changes nothing:
// what is written, renamed or removed is so in RAM alone. With it a store on a
// disk that takes no writes is recovered as any other, and then read.
type Overlay struct {
	below vfs.FS
	*vfs.MemFS

	mu      sync.Mutex
	gone    map[string]bool   // names below which nothing of the other file system shows
	moved   map[string]string // names that show what the other has under another name
	patches map[string]*patch // of files of the other, by their name there
}

// patch is what was written to a file of the other file system.
type patch struct {
	mu     sync.Mutex
	writes []patchWrite
	bytes  int
}

type patchWrite struct {
	off int64
	p   []byte
}

// NewOverlay returns an overlay above below, with no changes yet.
func NewOverlay(below vfs.FS) *Overlay {
	return &Overlay{below: below, MemFS: vfs.NewMem(), gone: map[string]bool{}, moved: map[string]string{}, patches: map[string]*patch{}}
}

// Unwrap implements [vfs.FS]: it is no wrapper of the machine's file system.
func (f *Overlay) Unwrap() vfs.FS { return nil }

// under returns the name that the other file system has for name; ok is false
// when it has none.
func (f *Overlay) under(name string) (string, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for at := name; ; at = f.PathDir(at) {
		if old, ok := f.moved[at]; ok {
			return old + strings.TrimPrefix(name, at), true
		}
		if f.gone[at] {
			return "", false
		}
		if up := f.PathDir(at); up == at || up == "." {
			return name, true
		}
	}
}

// has reports whether the overlay itself has name.
func (f *Overlay) has(name string) bool {
	_, err := f.MemFS.Stat(name)
	return err == nil
}

func missing(op, name string) error { return &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist} }

// Create implements [vfs.FS].
func (f *Overlay) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := f.MemFS.MkdirAll(f.PathDir(name), 0o700); err != nil {
		return nil, err
	}
	return f.MemFS.Create(name, c)
}

// Open implements [vfs.FS].
func (f *Overlay) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if f.has(name) {
		return f.MemFS.Open(name, opts...)
	}
	old, ok := f.under(name)
	if !ok {
		return nil, missing("open", name)
	}
	file, err := f.below.Open(old, opts...)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	p := f.patches[old]
	f.mu.Unlock()
	if p == nil {
		return file, nil
	}
	return &patchedFile{File: file, patch: p}, nil
}

// OpenReadWrite implements [vfs.FS].
func (f *Overlay) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	old, ok := f.under(name)
	if ok && !f.has(name) {
		file, err := f.below.Open(old, opts...)
		if err == nil {
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.patches[old] == nil {
				f.patches[old] = &patch{}
			}
			return &patchedFile{File: file, patch: f.patches[old]}, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	if err := f.MemFS.MkdirAll(f.PathDir(name), 0o700); err != nil {
		return nil, err
	}
	return f.MemFS.OpenReadWrite(name, c, opts...)
}

// OpenDir implements [vfs.FS]. What is there it does not say: see List.
func (f *Overlay) OpenDir(name string) (vfs.File, error) {
	if err := f.MemFS.MkdirAll(name, 0o700); err != nil {
		return nil, err
	}
	return f.MemFS.OpenDir(name)
}

// Stat implements [vfs.FS].
func (f *Overlay) Stat(name string) (vfs.FileInfo, error) {
	old, ok := f.under(name)
	if ok {
		if info, err := f.below.Stat(old); err == nil && (info.IsDir() || !f.has(name)) {
			return info, nil
		}
	}
	return f.MemFS.Stat(name)
}

// List implements [vfs.FS].
func (f *Overlay) List(dir string) ([]string, error) {
	names, err := f.MemFS.List(dir)
	if old, ok := f.under(dir); ok {
		more, e := f.below.List(old)
		if e == nil {
			err = nil
		}
		for _, name := range more {
			if _, ok := f.under(f.PathJoin(dir, name)); ok && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for name := range f.moved {
		if f.PathDir(name) == dir && !slices.Contains(names, f.PathBase(name)) {
			names = append(names, f.PathBase(name))
		}
	}
	return names, err
}

// hide makes what the other file system has under name not show.
func (f *Overlay) hide(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.moved, name)
	f.gone[name] = true
}

// Remove implements [vfs.FS].
func (f *Overlay) Remove(name string) error {
	if _, err := f.Stat(name); err != nil {
		return err
	}
	if f.has(name) {
		if err := f.MemFS.Remove(name); err != nil {
			return err
		}
	}
	f.hide(name)
	return nil
}

// RemoveAll implements [vfs.FS].
func (f *Overlay) RemoveAll(name string) error {
	f.hide(name)
	return f.MemFS.RemoveAll(name)
}

// Rename implements [vfs.FS].
func (f *Overlay) Rename(old, name string) error {
	if _, err := f.Stat(old); err != nil {
		return err
	}
	from, below := f.under(old)
	if below {
		_, err := f.below.Stat(from)
		below = err == nil
	}
	f.hide(name)
	if err := f.MemFS.MkdirAll(f.PathDir(name), 0o700); err != nil {
		return err
	}
	if f.has(old) {
		if err := f.MemFS.Rename(old, name); err != nil {
			return err
		}
	}
	f.hide(old)
	if below {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.gone, name)
		f.moved[name] = from
	}
	return nil
}

// Link implements [vfs.FS]: nothing of a store is linked.
func (f *Overlay) Link(old, name string) error {
	return &os.LinkError{Op: "link", Old: old, New: name, Err: syscall.EROFS}
}

// ReuseForWrite implements [vfs.FS].
func (f *Overlay) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := f.Remove(old); err != nil {
		return nil, err
	}
	return f.Create(name, c)
}

// Lock implements [vfs.FS]. Where the file system is read-only nobody writes to
// it, so that there is nothing to be kept from.
func (f *Overlay) Lock(name string) (io.Closer, error) {
	lock, err := f.below.Lock(name)
	if errors.Is(err, syscall.EROFS) {
		return nothingLocked{}, nil
	}
	return lock, err
}

type nothingLocked struct{}

// Close implements [io.Closer].
func (nothingLocked) Close() error { return nil }

// GetDiskUsage implements [vfs.FS].
func (f *Overlay) GetDiskUsage(name string) (vfs.DiskUsage, error) {
	return f.below.GetDiskUsage(name)
}

// patchedFile is a file of the other file system with what was written to it.
type patchedFile struct {
	vfs.File
	patch *patch
}

// ReadAt implements [vfs.File].
func (f *patchedFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	f.patch.mu.Lock()
	defer f.patch.mu.Unlock()
	for _, w := range f.patch.writes {
		lo, hi := max(off, w.off), min(off+int64(len(p)), w.off+int64(len(w.p)))
		if lo < hi {
			copy(p[lo-off:hi-off], w.p[lo-w.off:])
			n = max(n, int(hi-off))
		}
	}
	if n == len(p) {
		err = nil
	}
	return n, err
}

// WriteAt implements [vfs.File].
func (f *patchedFile) WriteAt(p []byte, off int64) (int, error) {
	f.patch.mu.Lock()
	defer f.patch.mu.Unlock()
	if f.patch.bytes+len(p) > overlayBytes {
		return 0, syscall.EROFS
	}
	f.patch.bytes += len(p)
	f.patch.writes = append(f.patch.writes, patchWrite{off, slices.Clone(p)})
	return len(p), nil
}

// Write implements [vfs.File]: what is appended to is new.
func (f *patchedFile) Write([]byte) (int, error) { return 0, syscall.EROFS }

// Sync implements [vfs.File].
func (f *patchedFile) Sync() error { return nil }

// SyncData implements [vfs.File].
func (f *patchedFile) SyncData() error { return nil }

// SyncTo implements [vfs.File].
func (f *patchedFile) SyncTo(int64) (bool, error) { return true, nil }

// Preallocate implements [vfs.File].
func (f *patchedFile) Preallocate(int64, int64) error { return nil }

// Fd implements [vfs.File]: reading past the patch is refused.
func (f *patchedFile) Fd() uintptr { return vfs.InvalidFd }
