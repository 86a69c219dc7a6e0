package fsys

import (
	"io"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/protocols/status"
)

// Descriptors counts how often the process had no file descriptor left for the store.
type Descriptors struct {
	Shed    int64     `json:"shed"`              // cached files that were closed to free descriptors
	Refused int64     `json:"refused"`           // operations that failed for lack of a descriptor
	Last    time.Time `json:"last_at,omitempty"` // when the last such operation failed; zero when none did
}

// Sparing opens the files of another file system. When the process has no descriptor left, it
// calls Shed, which closes files that are open only for speed, and tries once more.
type Sparing struct {
	vfs.FS
	Shed func() (closed int) // closes cached files and returns how many; set before the first use

	closed, refused, last atomic.Int64 // last in Unix nanoseconds
}

// NewSparing returns a file system above fs. Its Shed closes nothing until the caller sets it.
func NewSparing(fs vfs.FS) *Sparing { return &Sparing{FS: fs, Shed: func() int { return 0 }} }

// Unwrap implements [vfs.FS].
func (f *Sparing) Unwrap() vfs.FS { return f.FS }

// Stats returns the counters.
func (f *Sparing) Stats() Descriptors {
	d := Descriptors{Shed: f.closed.Load(), Refused: f.refused.Load()}
	if at := f.last.Load(); at != 0 {
		d.Last = time.Unix(0, at)
	}
	return d
}

// openSparing runs open. If no descriptor is left, it sheds files and runs open once more when
// any were closed.
func openSparing[T any](f *Sparing, open func() (T, error)) (T, error) {
	v, err := open()
	if err == nil || !status.NoDescriptors(err) {
		return v, err
	}
	if n := f.Shed(); n > 0 {
		f.closed.Add(int64(n))
		v, err = open()
	}
	if status.NoDescriptors(err) {
		f.refused.Add(1)
		f.last.Store(time.Now().UnixNano())
	}
	return v, err
}

// Create implements [vfs.FS].
func (f *Sparing) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return openSparing(f, func() (vfs.File, error) { return f.FS.Create(name, c) })
}

// Open implements [vfs.FS].
func (f *Sparing) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	return openSparing(f, func() (vfs.File, error) { return f.FS.Open(name, opts...) })
}

// OpenReadWrite implements [vfs.FS].
func (f *Sparing) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return openSparing(f, func() (vfs.File, error) { return f.FS.OpenReadWrite(name, c, opts...) })
}

// OpenDir implements [vfs.FS].
func (f *Sparing) OpenDir(name string) (vfs.File, error) {
	return openSparing(f, func() (vfs.File, error) { return f.FS.OpenDir(name) })
}

// ReuseForWrite implements [vfs.FS].
func (f *Sparing) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return openSparing(f, func() (vfs.File, error) { return f.FS.ReuseForWrite(old, name, c) })
}

// List implements [vfs.FS].
func (f *Sparing) List(dir string) ([]string, error) {
	return openSparing(f, func() ([]string, error) { return f.FS.List(dir) })
}

// Lock implements [vfs.FS].
func (f *Sparing) Lock(name string) (io.Closer, error) {
	return openSparing(f, func() (io.Closer, error) { return f.FS.Lock(name) })
}
