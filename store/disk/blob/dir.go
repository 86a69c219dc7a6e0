package blob

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/protocols/b3"
	"allium/store/disk/damage"
	"allium/store/disk/fsys"
	"allium/store/disk/tables"
	"allium/store/meta"
)

// dir is the directory of a store, with what the types of this package share.
type dir struct {
	fs         vfs.FS
	root       string
	logger     *slog.Logger
	index      *tables.Index
	space      func(need int64) error
	quarantine *damage.Quarantine
	prefix     string // of names in tmp/, unlike any other process's
	serial     atomic.Int64
}

const outboardSuffix = ".ob"

func (d *dir) path(elem ...string) string {
	return d.fs.PathJoin(append([]string{d.root}, elem...)...)
}

// objectPath returns the path of root's bytes in obj/.
func (d *dir) objectPath(root b3.Root) string {
	h := root.Hex()
	return d.path(fsys.DirObjects, h[:2], h)
}

// tempName returns an unused path in tmp/.
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

// reopen opens an existing file for reading and writing.
func (d *dir) reopen(name string) (*stagedFile, error) {
	f, err := d.fs.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, meta.ReadError(err)
	}
	return &stagedFile{f: f, space: d.space}, nil
}

// openFile opens a file for reading. It returns a defect if the file is missing or
// does not have size bytes.
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

// replace replaces the file name with what write writes, through a file in tmp/.
func (d *dir) replace(name string, write func(f vfs.File) error) error {
	return fsys.Replace(d.fs, d.tempName(), name, write)
}

func (d *dir) unlink(name string) error {
	if err := d.fs.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return meta.WriteError("remove a file", err)
	}
	return nil
}

// unlinkOrLog removes files and logs errors: the next start removes the files.
func (d *dir) unlinkOrLog(names ...string) {
	for _, name := range names {
		if err := d.unlink(name); err != nil {
			d.logger.Warn("a file stays until the next start", "file", name, "err", err)
		}
	}
}

// moveToQuarantine moves the files of one finding to quarantine/ and adds why to the
// list of damage, as mended unless it has a state. Files stay if quarantine/ is full.
func (d *dir) moveToQuarantine(why meta.Damage, files ...string) {
	if why.State == "" {
		why.State = meta.DamageMended
	}
	_ = d.quarantine.Take(why, files...) // noted and logged
}

// noteDamage adds why, the mended damage of a file that stays, to the list of damage.
func (d *dir) noteDamage(file string, why meta.Damage) {
	why.State, why.File = meta.DamageMended, d.quarantine.Below(file)
	d.quarantine.Note(why)
}
