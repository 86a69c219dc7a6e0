// Package ballast reserves space on a disk for writes that must succeed when the disk is
// full. The reserve is a directory of files of random bytes. [Ballast.Release] deletes one
// when such a write finds no space, and [Ballast.Fill] creates it again when the disk has
// space. A process starts with Load, which counts the files that the previous one left.
package ballast

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Step is the size of one file in bytes, which one Release gives back. Deleting a file
// needs neither space nor a descriptor, unlike truncating one.
const Step = 1 << 20

// Ballast is a set of files in one directory. Its methods are safe for concurrent use.
type Ballast struct {
	fs   vfs.FS
	dir  string
	size int64 // when complete

	lock     chan struct{} // a buffer of one; full while files are created, deleted or listed
	bytes    atomic.Int64  // of the complete files
	released atomic.Int64  // bytes released since the start
}

// New returns a ballast of size bytes, rounded down to a multiple of Step, in dir. Its
// files count from Load on. A nil disk means the machine's file system.
func New(disk vfs.FS, dir string, size int64) *Ballast {
	if disk == nil {
		disk = vfs.Default
	}
	return &Ballast{fs: disk, dir: dir, size: size / Step * Step, lock: make(chan struct{}, 1)}
}

// Bytes returns how many bytes of the ballast exist now.
func (b *Ballast) Bytes() int64 { return b.bytes.Load() }

// Size returns how many bytes the ballast has when it is complete.
func (b *Ballast) Size() int64 { return b.size }

// Released returns how many bytes were released since the start.
func (b *Ballast) Released() int64 { return b.released.Load() }

// Load counts the files that an earlier process left. Incomplete files do not count, and
// Fill creates them again.
func (b *Ballast) Load() {
	b.lock <- struct{}{}
	defer func() { <-b.lock }()
	held := int64(0)
	for n := range b.size / Step {
		if b.isComplete(n) {
			held += Step
		}
	}
	b.bytes.Store(held)
}

func (b *Ballast) name(n int64) string { return b.fs.PathJoin(b.dir, fmt.Sprintf("%02d", n)) }

func (b *Ballast) isComplete(n int64) bool {
	info, err := b.fs.Stat(b.name(n))
	return err == nil && info.Size() == Step
}

// Release deletes one file and reports whether it did. If it did, the caller repeats the
// write that found no space.
func (b *Ballast) Release() bool {
	if b.bytes.Load() == 0 {
		return false
	}
	b.lock <- struct{}{}
	defer func() { <-b.lock }()
	for n := b.size/Step - 1; n >= 0; n-- {
		if !b.isComplete(n) {
			continue
		}
		if b.fs.Remove(b.name(n)) == nil {
			b.bytes.Add(-Step)
			b.released.Add(Step)
			return true
		}
	}
	b.bytes.Store(0)
	return false
}

// Fill creates one more file if the disk has space for it. minFree is how many bytes must
// stay free on the disk; the bytes of the ballast count as free. Fill reports whether more
// files are to be created. It returns false and no error when the disk has too little
// space.
func (b *Ballast) Fill(minFree int64) (more bool, err error) {
	if b.bytes.Load() >= b.size {
		return false, nil
	}
	b.lock <- struct{}{}
	defer func() { <-b.lock }()
	if !b.hasSpace(minFree) {
		return false, nil
	}
	if err := b.fs.MkdirAll(b.dir, 0o700); err != nil {
		return false, fmt.Errorf("create the ballast directory: %w", err)
	}
	for n := range b.size / Step {
		if b.isComplete(n) {
			continue
		}
		if err := b.create(b.name(n)); err != nil {
			return false, fmt.Errorf("create a ballast file: %w", err)
		}
		return b.bytes.Add(Step) < b.size, nil
	}
	b.bytes.Store(b.size)
	return false, nil
}

// hasSpace reports whether the disk has space for one more file. It reports false on a disk
// that does not tell its free space.
func (b *Ballast) hasSpace(minFree int64) bool {
	u, err := b.fs.GetDiskUsage(b.fs.PathDir(b.dir))
	if err != nil {
		return false
	}
	free := int64(min(u.AvailBytes, 1<<62))
	return free >= 4*Step && free+b.bytes.Load() >= minFree+Step
}

// create writes one complete file, or none. Its bytes are random, as a file system that
// compresses would reserve no space for others. It is not synced.
func (b *Ballast) create(name string) error {
	f, err := b.fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	var seed [32]byte
	for i := range seed {
		seed[i] = byte(rand.Uint32())
	}
	_, err = io.CopyN(f, rand.NewChaCha8(seed), Step)
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
