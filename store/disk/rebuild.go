package disk

import (
	"context"
	"errors"
	"io/fs"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/disk/blob"
	"allium/store/disk/fsys"
	"allium/store/meta"
)

// RebuildProgress is the progress of a rebuild.
type RebuildProgress struct {
	Segments int64 `json:"segments"` // replayed segments
	Objects  int64 `json:"objects"`  // large objects that were read
	Bytes    int64 `json:"bytes"`    // bytes of those objects
}

// RebuildReport is the result of a rebuild.
type RebuildReport struct {
	Segments int64  `json:"segments"`       // replayed segments
	Fetched  int64  `json:"fetched"`        // segments that were only in the bucket
	Objects  int64  `json:"objects"`        // objects in the new index, including damaged ones
	Bytes    int64  `json:"bytes"`          // bytes of those objects
	Pins     int64  `json:"pins"`           // pins in the new index
	Adopted  int64  `json:"adopted"`        // large objects that no segment names
	Damaged  int64  `json:"damaged"`        // large objects with wrong bytes; marked corrupt until put again
	Missing  int64  `json:"missing"`        // large objects without bytes; marked corrupt until put again
	Torn     int64  `json:"torn"`           // places in segments where no record could be read
	Corrupt  int64  `json:"corrupt"`        // objects in the new index, small and large, that are damaged or missing
	Open     int    `json:"open"`           // open findings of the list of damage
	Unknown  int    `json:"unknown"`        // of them, those where nobody can tell which objects were lost
	Node     string `json:"node,omitempty"` // the node's name in the bucket
}

// The directories of the new index while it is built, and of the old one while the
// new one replaces it.
const (
	dirNewIndex = "index.new"
	dirOldIndex = "index.old"
)

// Rebuild builds a new index for a store that no process has open. It calls progress,
// which may be nil, after each segment and each large object.
func Rebuild(ctx context.Context, o Options, progress func(RebuildProgress)) (RebuildReport, error) {
	r := &rebuild{ctx: ctx, d: New(o), onProgress: progress}
	err := r.run()
	if e := r.d.release(); err == nil {
		err = e
	}
	if err == nil {
		err = r.swap()
	}
	if r.unlock != nil {
		err = errors.Join(err, r.unlock())
	}
	return r.report, err
}

// rebuild is one run of Rebuild.
type rebuild struct {
	ctx        context.Context
	d          *Backend
	onProgress func(RebuildProgress) // may be nil
	unlock     func() error
	done       RebuildProgress
	report     RebuildReport
}

// run builds the new index in index.new.
func (r *rebuild) run() error {
	d := r.d
	d.disk.ballast.Load()
	if err := r.prepare(); err != nil {
		return err
	}
	if err := d.loadDamage(); err != nil {
		return err
	}
	if err := d.fs.RemoveAll(d.dir.path(dirNewIndex)); err != nil {
		return meta.WriteError("remove a directory", err)
	}
	if err := fsys.EmptyDir(d.fs, d.dir.path(fsys.DirTemp)); err != nil {
		return err
	}
	var err error
	if d.index, err = d.indexIn(d.dir.path(dirNewIndex), true); err != nil {
		return indexError(d.dir.path(dirNewIndex), err)
	}
	if d.cloud == nil {
		err = d.checkNoBucket()
	} else if r.report.Node, err = d.cloud.Rejoin(r.ctx, d.index); err == nil {
		r.report.Fetched, err = d.cloud.FetchSegments(r.ctx)
	}
	if err != nil {
		return err
	}
	d.newParts()
	before := len(d.damage.All())
	if err := d.segments.Recover(r.ctx, false, true, func() {
		r.report.Segments++
		r.done.Segments++
		r.progress()
	}); err != nil {
		return err
	}
	r.report.Torn = int64(len(d.damage.All()) - before)
	if err := r.adopt(); err != nil {
		return err
	}
	if err := r.finish(); err != nil {
		return err
	}
	return d.index.Sync()
}

// prepare locks the directory. It creates a store if the directory is empty and there
// is a bucket, and otherwise returns not_found if there is no store.
func (r *rebuild) prepare() error {
	d := r.d
	if _, err := d.fs.Stat(d.cfg.Dir); d.cloud == nil && errors.Is(err, fs.ErrNotExist) {
		return status.Errorf(status.NotFound, "there is no store in %s", d.cfg.Dir)
	}
	if err := fsys.MakeDir(d.fs, d.cfg.Dir); err != nil {
		return err
	}
	version, err := d.dir.version()
	if err != nil {
		return err
	}
	if version == 0 && d.cloud == nil {
		return status.Errorf(status.NotFound, "there is no store in %s", d.cfg.Dir)
	}
	lock, err := d.dir.lock()
	if err != nil {
		return err
	}
	r.unlock = lock.Close
	if version == 0 {
		if err := d.dir.create(); err != nil {
			return err
		}
		return d.dir.writeFormat()
	}
	return d.dir.upgrade(version)
}

// finish counts objects and pins for the report, and begins a new segment. The end of
// the last segment may be torn, or may already be in the bucket.
func (r *rebuild) finish() error {
	d := r.d
	err := d.index.EachEntry(func(e meta.Entry) error {
		r.report.Objects++
		r.report.Bytes += e.Size
		if e.Corrupt {
			r.report.Corrupt++
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := d.index.Pins(b3.Root{}, "", false, func(meta.Pin) bool { r.report.Pins++; return true }); err != nil {
		return err
	}
	r.report.Open, r.report.Unknown = d.damage.Open()
	return d.segments.StartSegment()
}

// swap replaces the old index with the new one, which is closed.
func (r *rebuild) swap() error {
	f, index, old := r.d.fs, r.d.dir.path(fsys.DirIndex), r.d.dir.path(dirOldIndex)
	if err := blob.ClearUnnoted(r.d.fs, r.d.cfg.Dir); err != nil {
		return err
	}
	if err := f.RemoveAll(old); err != nil {
		return meta.WriteError("remove a directory", err)
	}
	if err := f.Rename(index, old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return meta.WriteError("rename the old index", err)
	}
	if err := f.Rename(r.d.dir.path(dirNewIndex), index); err != nil {
		return meta.WriteError("rename the new index", err)
	}
	if err := fsys.SyncDir(f, r.d.cfg.Dir); err != nil {
		return err
	}
	if err := f.RemoveAll(old); err != nil {
		return meta.WriteError("remove the old index", err)
	}
	return nil
}

func (r *rebuild) progress() {
	if r.onProgress != nil {
		r.onProgress(r.done)
	}
}
