package segment

import (
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/protocols/b3"
	"allium/store/disk/fsys"
	"allium/store/disk/segment/codec"
	"allium/store/meta"
)

// segmentDir is the directory of the segment files.
type segmentDir struct {
	fs           vfs.FS
	root         string // path of the directory
	segmentBytes int64  // size at which a segment is closed
}

func (d *segmentDir) path(num uint64) string { return d.fs.PathJoin(d.root, codec.FileName(num)) }

// List returns the numbers of the segment files, ascending.
func (d *segmentDir) List() ([]uint64, error) {
	names, err := d.fs.List(d.root)
	if err != nil {
		return nil, meta.ReadError(err)
	}
	var nums []uint64
	for _, name := range names {
		if num, ok := codec.ParseFileName(name); ok {
			nums = append(nums, num)
		}
	}
	slices.Sort(nums)
	return nums, nil
}

// Name returns the path of a segment's file relative to the store's directory.
func (d *segmentDir) Name(num uint64) string { return fsys.DirSegments + "/" + codec.FileName(num) }

// OpenFile opens the file of a segment for reading. The caller closes it.
func (d *segmentDir) OpenFile(num uint64) (vfs.File, error) { return d.fs.Open(d.path(num)) }

// largePath returns the path of the file with a large object's bytes.
func (d *segmentDir) largePath(root b3.Root) string {
	name := root.Hex()
	return d.fs.PathJoin(d.fs.PathDir(d.root), fsys.DirObjects, name[:2], name)
}

// create makes the file of segment num with the header h.
func (d *segmentDir) create(num uint64, h codec.SegmentHeader) (vfs.File, error) {
	f, err := d.fs.Create(d.path(num), vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, meta.WriteError("begin a segment", err)
	}
	if err := codec.WriteSegmentHeader(f, h); err != nil {
		_ = f.Close()
		return nil, meta.WriteError("begin a segment", err)
	}
	return f, nil
}
