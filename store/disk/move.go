package disk

import (
	"path"

	"allium/protocols/status"
	"allium/store/bucket/cloud"
	"allium/store/disk/fsys"
	"allium/store/disk/segment/codec"
	"allium/store/meta"
)

// MoveFile implements the backend of a store. A crash after the removal and before the
// rename leaves a file that the next start unlinks.
func (d *Backend) MoveFile(e meta.Entry, move func(path string) error) error {
	file, ok := d.File(e)
	if !ok {
		return meta.NoOwnFile(e.Root)
	}
	removed, err := d.segments.Remove([]meta.Entry{e})
	if err != nil {
		return err
	}
	if len(removed) == 0 {
		return status.Errorf(status.Conflict, "%s was removed or stored again by another request", e.Root)
	}
	err = move(file)
	d.Unlink(e.Root)
	return err
}

// Place implements the backend of a store.
func (d *Backend) Place(e meta.Entry) (file string, offset int64, inBucket bool) {
	if meta.Small(e.Size) {
		return path.Join(fsys.DirSegments, codec.FileName(e.Seg)), e.Off, false
	}
	hex := e.Root.Hex()
	file = path.Join(fsys.DirObjects, hex[:2], hex)
	if d.cloud != nil {
		if _, err := d.fs.Stat(d.dir.path(file)); err != nil { // stored before there was a bucket, if it is here
			return cloud.ObjectKey(e.Root), 0, true
		}
	}
	return file, 0, false
}
