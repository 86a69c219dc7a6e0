package disk

import (
	"context"
	"errors"
	"syscall"

	"allium/protocols/status"
	"allium/store/disk/fsys"
)

// Open opens the store. If the disk takes no writes, it opens the store for reading
// only: the file system is read-only, or has no space for a start and no ballast.
// Then recovery changes files only in RAM, and every write is refused.
func (d *Backend) Open(ctx context.Context) error {
	err := d.openAt(ctx)
	readOnly := errors.Is(err, syscall.EROFS)
	if err == nil || !readOnly && status.Of(err) != status.NoSpace || d.cloud != nil {
		return err
	}
	if version, e := d.dir.version(); e != nil || version == 0 {
		return err // there is no store to read
	}
	d.log.Warn("the disk takes no writes; the store is read-only", "dir", d.cfg.Dir, "err", err)
	d.lock, d.index, d.segments, d.Files = nil, nil, nil, nil
	d.fs.FS = fsys.NewOverlay(d.raw)
	if readOnly {
		d.disk.readOnly = status.Errorf(status.NotReady, "the store is read-only, because the file system of %s is: "+
			"mount it for writing, then restart the node", d.cfg.Dir)
	} else {
		d.disk.readOnly = status.Errorf(status.NoSpace, "the store is read-only, because the disk of %s had no space "+
			"left at the start: free disk space, then restart the node", d.cfg.Dir)
	}
	if err := d.openAt(ctx); err != nil {
		return err
	}
	d.segments.Freeze(d.disk.readOnly)
	d.index.Freeze(d.disk.readOnly)
	return nil
}
