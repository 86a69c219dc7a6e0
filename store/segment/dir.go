package segment

import (
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/protocols/b3"
	"allium/store/fsys"
	"allium/store/meta"
	"allium/store/segment/record"
)

// dir is the directory of the segments.
type dir struct {
	fs   vfs.FS
	root string
}

func (d *dir) path(num uint64) string { return d.fs.PathJoin(d.root, record.FileName(num)) }

// List returns the numbers of the segments on disk, ascending.
func (d *dir) List() ([]uint64, error) {
	names, err := d.fs.List(d.root)
	if err != nil {
		return nil, meta.ReadError(err)
	}
	var nums []uint64
	for _, name := range names {
		if num, ok := record.ParseFileName(name); ok {
			nums = append(nums, num)
		}
	}
	slices.Sort(nums)
	return nums, nil
}

// Name is a segment's file below the store's directory.
func (d *dir) Name(num uint64) string { return fsys.DirSegments + "/" + record.FileName(num) }

// OpenFile opens the file of a segment.
func (d *dir) OpenFile(num uint64) (vfs.File, error) { return d.fs.Open(d.path(num)) }

// largePath is the file of a large object's bytes.
func (d *dir) largePath(root b3.Root) string {
	name := root.Hex()
	return d.fs.PathJoin(d.fs.PathDir(d.root), fsys.DirObjects, name[:2], name)
}

// renew gives a file a new epoch, durably.
func (d *dir) renew(name string) error {
	f, err := d.fs.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return meta.ReadError(err)
	}
	if err = record.WriteHeader(f, record.Header{Epoch: newEpoch()}); err == nil {
		err = f.SyncData()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	return meta.WriteError("write a segment", err)
}

// inspect returns the size of a spare file; ok is false when it has no header.
func (d *dir) inspect(name string) (size int64, ok bool, err error) {
	f, err := d.fs.Open(name)
	if err != nil {
		return 0, false, meta.ReadError(err)
	}
	defer f.Close()
	size, _, ok, _, err = record.ReadHeader(f)
	return size, ok, err
}
