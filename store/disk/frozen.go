package disk

import (
	"context"
	"errors"
	"syscall"

	"allium/protocols/status"
	"allium/store/fsys"
)

// Open opens the store, for reading alone where its disk takes no writes: as the
// file system is read-only, or has no space even for a start and no ballast.
// What a recovery changes is in RAM then, and every write is refused.
func (d *Backend) Open(ctx context.Context) error {
	err := d.openAt(ctx)
	readOnly := errors.Is(err, syscall.EROFS)
	if err == nil || !readOnly && status.Of(err) != status.NoSpace || d.cloud != nil {
		return err
	}
	if version, e := d.dir.version(); e != nil || version == 0 {
		return err // there is nothing to read
	}
	d.log.Warn("the disk takes no writes; the store is only read", "dir", d.cfg.Dir, "err", err)
	d.lock, d.index, d.segments, d.Files = nil, nil, nil, nil
	d.fs.FS = fsys.NewOverlay(d.raw)
	if readOnly {
		d.disk.frozen = status.Errorf(status.NotReady, "the store is only read, as its file system is read-only (%s): mount it for writing, then restart the node", d.cfg.Dir)
	} else {
		d.disk.frozen = status.Errorf(status.NoSpace, "the store is only read, as its disk had no space left for a start (%s): free disk space, then restart the node", d.cfg.Dir)
	}
	if err := d.openAt(ctx); err != nil {
		return err
	}
	d.segments.Freeze(d.disk.frozen)
	d.index.Freeze(d.disk.frozen)
	return nil
}
