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
	err := Replace(f, f.PathJoin(dir, DirTemp, name), f.PathJoin(dir, name), func(h vfs.File) error {
		_, err := h.Write(p)
		return err
	})
	if err != nil {
		return meta.WriteError("write "+name, err)
	}
	return SyncDir(f, dir)
}

// Replace has write fill a new file at temp, which then gets its name, whole or not
// at all. The bytes are durable; the name is with the next sync of its directory.
// What fails leaves nothing that the next start does not remove.
func Replace(f vfs.FS, temp, name string, write func(vfs.File) error) error {
	h, err := f.Create(temp, vfs.WriteCategoryUnspecified)
	if err != nil {
		return meta.WriteError("create a file", err)
	}
	err = write(h)
	if err == nil {
		err = meta.WriteError("sync a file", h.SyncData())
	}
	if e := h.Close(); err == nil {
		err = meta.WriteError("close a file", e)
	}
	if err == nil {
		err = meta.WriteError("rename a file", f.Rename(temp, name))
	}
	if err != nil {
		_ = f.Remove(temp) // or the next start does
	}
	return err
}
