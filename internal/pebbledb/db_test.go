package pebbledb

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// options are of a database so small that a few hundred writes flush and compact.
func options(fs vfs.FS) pebble.Options {
	return pebble.Options{
		FS: fs, FormatMajorVersion: pebble.FormatValueSeparation,
		MemTableSize: 16 << 10, L0CompactionThreshold: 2,
	}
}

// fullFS refuses every change from the moment that left is used up.
type fullFS struct {
	vfs.FS
	left *atomic.Int64
	err  error
}

func (f fullFS) spend() error {
	if f.left.Add(-1) < 0 {
		return f.err
	}
	return nil
}

func (f fullFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := f.spend(); err != nil {
		return nil, err
	}
	file, err := f.FS.Create(name, c)
	return fullFile{file, f}, err
}

func (f fullFS) Rename(old, name string) error {
	if err := f.spend(); err != nil {
		return err
	}
	return f.FS.Rename(old, name)
}

func (f fullFS) Remove(name string) error {
	if err := f.spend(); err != nil {
		return err
	}
	return f.FS.Remove(name)
}

type fullFile struct {
	vfs.File
	f fullFS
}

func (f fullFile) Write(p []byte) (int, error) {
	if err := f.f.spend(); err != nil {
		n, _ := f.File.Write(p[:len(p)/2])
		return n, err
	}
	return f.File.Write(p)
}

func (f fullFile) Sync() error {
	if err := f.f.spend(); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f fullFile) SyncData() error { return f.Sync() }

func key(i int) []byte { return fmt.Appendf(nil, "key-%05d", i*7919%1000) }

func value(i int) []byte { return bytes.Repeat(key(i), 20) }

// TestRefusedByDisk: a disk that takes no more from any change on neither ends
// the process nor makes anybody wait, no write is taken for good from then on,
// and all that were are there when the files are opened again.
func TestRefusedByDisk(t *testing.T) {
	t.Parallel()
	for _, errno := range []error{syscall.ENOSPC, syscall.EROFS, syscall.EIO} {
		for budget := int64(0); budget < 500; budget += 1 + budget/12 {
			disk := vfs.NewMem()
			left := &atomic.Int64{}
			left.Store(budget)
			acked := 0
			d, err := Open("db", options(fullFS{disk, left, errno}), nil)
			if err == nil {
				for ; acked < 400; acked++ {
					if err = d.Apply(true,
						func(b *pebble.Batch) error { return b.Set(key(acked), value(acked), nil) }); err != nil {
						break
					}
				}
				if err != nil && (d.Set(key(0), nil) == nil || d.Sync() == nil || d.Flush() == nil) {
					t.Fatalf("after %d changes: a write succeeds after the failure", budget)
				}
				_ = d.Close()
				if d.Abandoned() {
					t.Fatalf("after %d changes: it could not be closed", budget)
				}
			}
			if err != nil && (Damaged(err) || !errors.Is(err, errno)) {
				t.Fatalf("after %d changes: %v, want %v", budget, err, errno)
			}
			if d, err = Open("db", options(disk), nil); err != nil {
				t.Fatalf("after %d changes: opened again: %v", budget, err)
			}
			for i := range acked {
				if v, err := d.Get(key(i)); err != nil || !bytes.Equal(v, value(i)) {
					t.Fatalf("after %d changes: write %d of %d: %v", budget, i, acked, err)
				}
			}
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestDamage flips bytes of every file: the process lives, no wrong value is
// read, and a database that was found damaged takes no write.
func TestDamage(t *testing.T) {
	t.Parallel()
	good := filepath.Join(t.TempDir(), "good")
	d, err := Open(good, options(vfs.Default), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 300 {
		if err := d.Set(key(i), value(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	names, err := os.ReadDir(good)
	if err != nil {
		t.Fatal(err)
	}
	steps := 8
	if os.Getenv("ALLIUM_TORTURE") != "" {
		steps = 400
	}
	found := 0
	for _, n := range names {
		whole, err := os.ReadFile(filepath.Join(good, n.Name()))
		if err != nil {
			t.Fatal(err)
		}
		for at := 0; at < len(whole); at += 1 + len(whole)/steps {
			dir := filepath.Join(t.TempDir(), "db")
			if err := os.CopyFS(dir, os.DirFS(good)); err != nil {
				t.Fatal(err)
			}
			flipped := bytes.Clone(whole)
			flipped[at] ^= 0x10
			if err := os.WriteFile(filepath.Join(dir, n.Name()), flipped, 0o600); err != nil {
				t.Fatal(err)
			}
			d, err := Open(dir, options(vfs.Default), nil)
			if err != nil {
				if !Damaged(err) {
					t.Errorf("%s, byte %d: not told to be damage: %v", n.Name(), at, err)
				}
				found++
				continue
			}
			for i := range 300 {
				v, err := d.Get(key(i))
				if err == nil && !bytes.Equal(v, value(i)) {
					t.Errorf("%s, byte %d: a wrong value", n.Name(), at)
				}
			}
			if d.Err() != nil {
				found++
				if err := d.Set(key(0), nil); !Damaged(err) {
					t.Errorf("%s, byte %d: a write to a damaged database: %v", n.Name(), at, err)
				}
			}
			_ = d.Close()
		}
	}
	if found == 0 {
		t.Error("no damage was found")
	}
}

// TestFatal: what Pebble ends a process for, and a panic, end the database.
func TestFatal(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(*DB){
		"fatal":      func(d *DB) { d.failure.Fatalf("no") },
		"panic":      func(d *DB) { _ = d.run(func() error { panic("no") }) },
		"background": func(d *DB) { d.failure.backgroundError(pebble.ErrCorruption) },
		"reader":     func(d *DB) { _ = d.read(func() error { return io.ErrUnexpectedEOF }) },
	} {
		d, err := Open("db", options(vfs.NewMem()), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.read(func() error { return syscall.EMFILE }); err == nil || d.Err() != nil {
			t.Errorf("%s: out of descriptors is taken for damage", name)
		}
		fail(d)
		<-d.Failed()
		if err := d.Set([]byte("k"), nil); !Damaged(err) {
			t.Errorf("%s: %v", name, err)
		}
		_ = d.Close()
		if d.Abandoned() != (name == "panic") {
			t.Errorf("%s: abandoned %t", name, d.Abandoned())
		}
		if name == "panic" {
			_ = d.db.Close() // the test's panic held no lock
		}
		if _, err := d.Get([]byte("k")); !errors.Is(err, ErrClosed) {
			t.Errorf("%s: read after Close: %v", name, err)
		}
		if err := d.Close(); !errors.Is(err, ErrClosed) {
			t.Errorf("%s: closed twice: %v", name, err)
		}
	}
}
