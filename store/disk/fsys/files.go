package fsys

import (
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/store/meta"
)

// SyncDir makes created, renamed and removed names in dir durable.
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

// MakeDir creates dir with mode 0700 and syncs its parent. It does nothing when dir exists.
func MakeDir(f vfs.FS, dir string) error {
	if _, err := f.Stat(dir); err == nil {
		return nil
	}
	if err := f.MkdirAll(dir, 0o700); err != nil {
		return meta.WriteError("create "+dir, err)
	}
	return SyncDir(f, f.PathDir(dir))
}

// EmptyDir removes every file in dir, such as the temporary files that a crash left.
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

// ReadFile returns the first 4,096 bytes of a file, which is a short file's whole content.
func ReadFile(f vfs.FS, name string) ([]byte, error) {
	h, err := f.Open(name)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	return io.ReadAll(io.LimitReader(h, 4096))
}

// ReplaceFile replaces the file name in the store's directory dir by one that contains p. The
// change is durable, and happens completely or not at all. It needs the directory tmp/.
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

// Replace creates a file at temp, calls write to fill it, and renames it to name. The file
// name changes completely or not at all. Its bytes are durable when Replace returns. The
// caller makes the name durable by syncing the directory. After an error, the file at temp
// may remain when it cannot be removed; the next start removes it.
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
		_ = f.Remove(temp) // if this fails, the next start removes it
	}
	return err
}
