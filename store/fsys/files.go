package fsys

import (
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/store/meta"
)

// SyncDir makes the names in dir durable.
func SyncDir(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return meta.WriteError("sync a directory", err)
	}
	err = d.Sync()
	if e := d.Close(); err == nil {
		err = e
	}
	return meta.WriteError("sync a directory", err)
}

// MakeDir creates the store's directory, durably.
func MakeDir(f vfs.FS, dir string) error {
	if _, err := f.Stat(dir); err == nil {
		return nil
	}
	if err := f.MkdirAll(dir, 0o700); err != nil {
		return meta.WriteError("create "+dir, err)
	}
	return SyncDir(f, f.PathDir(dir))
}

// EmptyDir removes what a crash left in dir.
func EmptyDir(f vfs.FS, dir string) error {
	names, err := f.List(dir)
	if err != nil {
		return meta.ReadError(err)
	}
	for _, name := range names {
		if err := f.Remove(f.PathJoin(dir, name)); err != nil {
			return meta.WriteError("remove "+name, err)
		}
	}
	return nil
}

// ReadFile returns a short file whole.
func ReadFile(f vfs.FS, name string) ([]byte, error) {
	h, err := f.Open(name)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	return io.ReadAll(io.LimitReader(h, 4096))
}

// ReplaceFile writes a short file of a store's directory, durably, and whole or
// not at all.
func ReplaceFile(f vfs.FS, dir, name string, p []byte) error {
	temp := f.PathJoin(dir, DirTemp, name)
	h, err := f.Create(temp, vfs.WriteCategoryUnspecified)
	if err != nil {
		return meta.WriteError("write "+name, err)
	}
	_, err = h.Write(p)
	if err == nil {
		err = h.Sync()
	}
	if e := h.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = f.Rename(temp, f.PathJoin(dir, name))
	}
	if err != nil {
		return meta.WriteError("write "+name, err)
	}
	return SyncDir(f, dir)
}
