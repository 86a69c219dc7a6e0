// Package ballast keeps space on a disk for what must be written when the disk
// is full: files of no content that are removed, one by one, when such a write
// finds no space, and made again when there is room.
package ballast

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Step is the size of one file of a ballast in bytes: what one Release gives
// back. Removing a file takes neither space nor a descriptor, unlike cutting one
// short.
const Step = 1 << 20

// Ballast is files in one directory. Its methods may be called from any
// goroutine.
type Ballast struct {
	fs   vfs.FS
	dir  string
	size int64 // when it is whole

	turn chan struct{} // bound: 1; held while files are made, removed or listed
	held atomic.Int64
	used atomic.Int64 // bytes that were released since the start
}

// New returns a ballast of size bytes in dir, which Load looks at. A nil fs is
// the machine's.
func New(disk vfs.FS, dir string, size int64) *Ballast {
	if disk == nil {
		disk = vfs.Default
	}
	return &Ballast{fs: disk, dir: dir, size: size / Step * Step, turn: make(chan struct{}, 1)}
}

// Held is how many bytes the ballast has now.
func (b *Ballast) Held() int64 { return b.held.Load() }

// Size is how many bytes the ballast has when it is whole.
func (b *Ballast) Size() int64 { return b.size }

// Released is how many bytes were released since the start.
func (b *Ballast) Released() int64 { return b.used.Load() }

// Load counts what an earlier process left. Files that are not whole do not
// count, and are made again by Fill.
func (b *Ballast) Load() {
	b.turn <- struct{}{}
	defer func() { <-b.turn }()
	held := int64(0)
	for n := range b.size / Step {
		if b.whole(n) {
			held += Step
		}
	}
	b.held.Store(held)
}

func (b *Ballast) name(n int64) string { return b.fs.PathJoin(b.dir, fmt.Sprintf("%02d", n)) }

func (b *Ballast) whole(n int64) bool {
	info, err := b.fs.Stat(b.name(n))
	return err == nil && info.Size() == Step
}

// Release removes one file and reports whether it did: false when there is none
// left. The caller then tries again what found no space.
func (b *Ballast) Release() bool {
	if b.held.Load() == 0 {
		return false
	}
	b.turn <- struct{}{}
	defer func() { <-b.turn }()
	for n := b.size/Step - 1; n >= 0; n-- {
		if !b.whole(n) {
			continue
		}
		if b.fs.Remove(b.name(n)) == nil {
			b.held.Add(-Step)
			b.used.Add(Step)
			return true
		}
	}
	b.held.Store(0)
	return false
}

// Fill makes one file more, if the disk has room for it: keep is how many bytes
// the disk must have free beside the ballast, which counts for up to all of it.
// It reports whether there may be more to make. What finds no space is left for
// later, and is no error.
func (b *Ballast) Fill(keep int64) (more bool, err error) {
	if b.held.Load() >= b.size {
		return false, nil
	}
	b.turn <- struct{}{}
	defer func() { <-b.turn }()
	if !b.room(keep) {
		return false, nil
	}
	if err := b.fs.MkdirAll(b.dir, 0o700); err != nil {
		return false, fmt.Errorf("make the ballast's directory: %w", err)
	}
	for n := range b.size / Step {
		if b.whole(n) {
			continue
		}
		if err := b.make(b.name(n)); err != nil {
			return false, fmt.Errorf("make a file of the ballast: %w", err)
		}
		return b.held.Add(Step) < b.size, nil
	}
	b.held.Store(b.size)
	return false, nil
}

// room reports whether the disk has room for one file more. On a disk that
// cannot tell there is no ballast.
func (b *Ballast) room(keep int64) bool {
	u, err := b.fs.GetDiskUsage(b.fs.PathDir(b.dir))
	if err != nil {
		return false
	}
	free := int64(min(u.AvailBytes, 1<<62))
	return free >= 4*Step && free+b.held.Load() >= keep+Step
}

// make writes one file, whole or not at all. Its bytes are random, as a file
// system that compresses would keep no space for others. It need not be durable.
func (b *Ballast) make(name string) error {
	f, err := b.fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	var seed [32]byte
	for i := range seed {
		seed[i] = byte(rand.Uint32())
	}
	p := make([]byte, Step)
	_, _ = rand.NewChaCha8(seed).Read(p) // never fails
	_, err = f.Write(p)
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		if e := b.fs.Remove(name); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}
