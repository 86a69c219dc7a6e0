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

// overlayBytes is the maximum number of bytes that an Overlay keeps of writes to one file of the
// other file system. Recovery writes only to the end of the log.
const overlayBytes = 1 << 20

// Overlay shows the files of another file system and never changes that one. It keeps writes,
// renames and removals in RAM. With it, a store on a disk that takes no writes is recovered
// like any other and can then be read. A file of the other file system takes at most 1 MiB of
// writes; more return EROFS. Files that the Overlay creates are not bounded.
type Overlay struct {
	below vfs.FS
	*vfs.MemFS

	mu      sync.Mutex        // lock: leaf
	hidden  map[string]bool   // paths at and below which the other file system is not shown
	renamed map[string]string // paths that show another path of the other file system
	patches map[string]*patch // writes to files of the other file system, by path there
}

// patch is the writes to one file of the other file system.
type patch struct {
	mu     sync.Mutex   // lock: leaf
	writes []patchWrite // in order: a later write hides an earlier one
	bytes  int          // sum of the lengths of writes, at most overlayBytes
}

type patchWrite struct {
	off int64
	p   []byte
}

// NewOverlay returns an overlay above below, with no changes yet.
func NewOverlay(below vfs.FS) *Overlay {
	return &Overlay{below: below, MemFS: vfs.NewMem(), hidden: map[string]bool{}, renamed: map[string]string{},
		patches: map[string]*patch{}}
}

// Unwrap implements [vfs.FS]. It returns nil, as files that are only in RAM must not be used
// through the other file system.
func (f *Overlay) Unwrap() vfs.FS { return nil }

// nameBelow returns the path in the other file system that name shows. ok is false when name
// shows none, because it was removed or replaced. The path need not exist.
func (f *Overlay) nameBelow(name string) (string, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for at := name; ; at = f.PathDir(at) {
		if old, ok := f.renamed[at]; ok {
			return old + strings.TrimPrefix(name, at), true
		}
		if f.hidden[at] {
			return "", false
		}
		if up := f.PathDir(at); up == at || up == "." {
			return name, true
		}
	}
}

// inRAM reports whether name is a file or directory in RAM.
func (f *Overlay) inRAM(name string) bool {
	_, err := f.MemFS.Stat(name)
	return err == nil
}

// missing returns the error of op on a name that does not exist.
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
	if f.inRAM(name) {
		return f.MemFS.Open(name, opts...)
	}
	old, ok := f.nameBelow(name)
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
	old, ok := f.nameBelow(name)
	if ok && !f.inRAM(name) {
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

// OpenDir implements [vfs.FS]. The directory can be synced and closed; only List returns its
// names.
func (f *Overlay) OpenDir(name string) (vfs.File, error) {
	if err := f.MemFS.MkdirAll(name, 0o700); err != nil {
		return nil, err
	}
	return f.MemFS.OpenDir(name)
}

// Stat implements [vfs.FS].
func (f *Overlay) Stat(name string) (vfs.FileInfo, error) {
	old, ok := f.nameBelow(name)
	if ok {
		if info, err := f.below.Stat(old); err == nil && (info.IsDir() || !f.inRAM(name)) {
			return info, nil
		}
	}
	return f.MemFS.Stat(name)
}

// List implements [vfs.FS].
func (f *Overlay) List(dir string) ([]string, error) {
	names, err := f.MemFS.List(dir)
	if old, ok := f.nameBelow(dir); ok {
		more, e := f.below.List(old)
		if e == nil {
			err = nil
		}
		for _, name := range more {
			if _, ok := f.nameBelow(f.PathJoin(dir, name)); ok && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for name := range f.renamed {
		if f.PathDir(name) == dir && !slices.Contains(names, f.PathBase(name)) {
			names = append(names, f.PathBase(name))
		}
	}
	return names, err
}

// hide makes name, and every path below it, show nothing of the other file system.
func (f *Overlay) hide(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.renamed, name)
	f.hidden[name] = true
}

// Remove implements [vfs.FS].
func (f *Overlay) Remove(name string) error {
	if _, err := f.Stat(name); err != nil {
		return err
	}
	if f.inRAM(name) {
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
	from, below := f.nameBelow(old)
	if below {
		_, err := f.below.Stat(from)
		below = err == nil
	}
	f.hide(name)
	if err := f.MemFS.MkdirAll(f.PathDir(name), 0o700); err != nil {
		return err
	}
	if f.inRAM(old) {
		if err := f.MemFS.Rename(old, name); err != nil {
			return err
		}
	}
	f.hide(old)
	if below {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.hidden, name)
		f.renamed[name] = from
	}
	return nil
}

// Link implements [vfs.FS]. It returns EROFS: a store links no files.
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

// Lock implements [vfs.FS]. On a read-only file system it succeeds without a lock, as no
// process writes there.
func (f *Overlay) Lock(name string) (io.Closer, error) {
	lock, err := f.below.Lock(name)
	if errors.Is(err, syscall.EROFS) {
		return noLock{}, nil
	}
	return lock, err
}

type noLock struct{}

// Close implements [io.Closer].
func (noLock) Close() error { return nil }

// GetDiskUsage implements [vfs.FS].
func (f *Overlay) GetDiskUsage(name string) (vfs.DiskUsage, error) {
	return f.below.GetDiskUsage(name)
}

// patchedFile is a file of the other file system that is read with the writes of its patch.
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

// WriteAt implements [vfs.File]. It returns EROFS when the patch would exceed overlayBytes.
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

// Write implements [vfs.File]. It returns EROFS: the store appends only to new files.
func (f *patchedFile) Write([]byte) (int, error) { return 0, syscall.EROFS }

// Sync implements [vfs.File].
func (f *patchedFile) Sync() error { return nil }

// SyncData implements [vfs.File].
func (f *patchedFile) SyncData() error { return nil }

// SyncTo implements [vfs.File].
func (f *patchedFile) SyncTo(int64) (bool, error) { return true, nil }

// Preallocate implements [vfs.File].
func (f *patchedFile) Preallocate(int64, int64) error { return nil }

// Fd implements [vfs.File]. It returns no descriptor, as a read through it would miss the
// patch.
func (f *patchedFile) Fd() uintptr { return vfs.InvalidFd }
