package blob

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/protocols/b3"
	"allium/store/damage"
	"allium/store/fsys"
	"allium/store/index"
	"allium/store/meta"
)

// dir is the directory of a store as the types of this package use it.
type dir struct {
	fs     vfs.FS
	root   string
	logger *slog.Logger
	index  *index.Index
	space  func(need int64) error
	aside  *damage.Quarantine
	prefix string // of names in tmp/, unlike any other process's
	serial atomic.Int64
}

const outboardSuffix = ".ob"

func (d *dir) path(elem ...string) string {
	return d.fs.PathJoin(append([]string{d.root}, elem...)...)
}

// objectPath is where root's bytes are, or will be.
func (d *dir) objectPath(root b3.Root) string {
	h := root.Hex()
	return d.path(fsys.DirObjects, h[:2], h)
}

// tempName is a name in tmp/ that was not used before.
func (d *dir) tempName() string {
	return d.path(fsys.DirTemp, fmt.Sprintf("%s-%d", d.prefix, d.serial.Add(1)))
}

func (d *dir) create(name string) (*stagedFile, error) {
	f, err := d.fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, meta.WriteError("create a file", err)
	}
	return &stagedFile{f: f, space: d.space}, nil
}

// reopen opens a file that is written again.
func (d *dir) reopen(name string) (*stagedFile, error) {
	f, err := d.fs.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, meta.ReadError(err)
	}
	return &stagedFile{f: f, space: d.space}, nil
}

// openFile opens a file that must have that size.
func (d *dir) openFile(name string, size int64) (vfs.File, error) {
	f, err := d.fs.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, meta.Defect("missing")
	}
	if err != nil {
		return nil, meta.ReadError(err)
	}
	info, err := f.Stat()
	switch {
	case err != nil:
		err = meta.ReadError(err)
	case info.Size() != size:
		err = meta.Defect("short")
	}
	if err != nil {
		_ = f.Close() // only read
		return nil, err
	}
	return f, nil
}

// replace is fsys.Replace by way of tmp/.
func (d *dir) replace(name string, write func(f vfs.File) error) error {
	return fsys.Replace(d.fs, d.tempName(), name, write)
}

func (d *dir) unlink(name string) error {
	if err := d.fs.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return meta.WriteError("remove a file", err)
	}
	return nil
}

// tidy is unlink where an error helps nobody: the next start removes the file.
func (d *dir) tidy(names ...string) {
	for _, name := range names {
		if err := d.unlink(name); err != nil {
			d.logger.Warn("a file stays until the next start", "file", name, "err", err)
		}
	}
}

// setAside moves the files of one finding to quarantine/. Nothing that was
// promised is lost unless why says otherwise. What has no place there stays.
func (d *dir) setAside(why meta.Damage, files ...string) {
	if why.State == "" {
		why.State = meta.DamageMended
	}
	_ = d.aside.Take(why, files...) // noted and logged
}

// notice notes damage of a file that stays.
func (d *dir) notice(file string, why meta.Damage) {
	why.State, why.File = meta.DamageMended, d.aside.Below(file)
	d.aside.Note(why)
}
