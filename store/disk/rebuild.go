package disk

import (
	"context"
	"errors"
	"io/fs"

	"allium/protocols/status"
	"allium/store/blob"
	"allium/store/fsys"
	"allium/store/meta"
)

// RebuildProgress is how far a rebuild has come.
type RebuildProgress struct {
	Segments int64 `json:"segments"` // replayed
	Objects  int64 `json:"objects"`  // large ones that were read
	Bytes    int64 `json:"bytes"`    // of those
}

// RebuildReport is what a rebuild found.
type RebuildReport struct {
	Segments int64  `json:"segments"`       // replayed
	Fetched  int64  `json:"fetched"`        // segments that were only in the bucket
	Objects  int64  `json:"objects"`        // in the new index, damaged ones included
	Bytes    int64  `json:"bytes"`          // of those
	Pins     int64  `json:"pins"`           // in the new index
	Adopted  int64  `json:"adopted"`        // large objects that no segment names
	Damaged  int64  `json:"damaged"`        // large objects whose bytes are wrong: marked, and not served until they are put again
	Missing  int64  `json:"missing"`        // large objects whose bytes are gone: marked as well
	Torn     int64  `json:"torn"`           // places in segments where no record could be read
	Node     string `json:"node,omitempty"` // name in the bucket
}

// Names of the index while it is rebuilt: the new one, and the old one until the
// new one is in its place.
const (
	dirNewIndex = "index.new"
	dirOldIndex = "index.old"
)

// Rebuild makes the index of a store that no node runs anew. progress may be
// nil.
func Rebuild(ctx context.Context, o Options, progress func(RebuildProgress)) (RebuildReport, error) {
	r := &rebuild{ctx: ctx, d: New(o), tell: progress}
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

// rebuild is one run.
type rebuild struct {
	ctx    context.Context // of the run
	d      *Backend
	tell   func(RebuildProgress)
	unlock func() error
	at     RebuildProgress
	report RebuildReport
}

// run fills index.new.
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
		err = d.notEmbedded()
	} else if r.report.Node, err = d.cloud.Rejoin(r.ctx, d.index); err == nil {
		r.report.Fetched, err = d.cloud.FetchSegments(r.ctx)
	}
	if err != nil {
		return err
	}
	d.makeParts()
	before := len(d.damage.All())
	if err := d.segments.Recover(r.ctx, false, true, func() {
		r.report.Segments++
		r.at.Segments++
		r.progress()
	}); err != nil {
		return err
	}
	r.report.Torn = int64(len(d.damage.All()) - before)
	if err := r.adopt(); err != nil {
		return err
	}
	if err := r.settle(); err != nil {
		return err
	}
	return d.index.Sync()
}

// prepare locks the directory and sees that it is a store, or becomes one.
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
	return d.dir.bringForward(version)
}

// settle counts what there is, and has the log go on in a new segment: what is
// at the end of the last one may be torn, or in the bucket already.
func (r *rebuild) settle() error {
	d := r.d
	err := d.index.EachEntry(func(e meta.Entry) error {
		r.report.Objects++
		r.report.Bytes += e.Size
		return nil
	})
	if err != nil {
		return err
	}
	if err := d.index.EachPin(func(meta.Pin, uint64) error { r.report.Pins++; return nil }); err != nil {
		return err
	}
	return d.segments.StartSegment()
}

// swap puts the new index, which is closed, in the place of the old one.
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
	if r.tell != nil {
		r.tell(r.at)
	}
}
