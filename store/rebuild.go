package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/protocols/status"
	"allium/store/bucket"
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

// Rebuild makes the index of a store that no node runs anew: from the segments,
// and from what is in obj/ or in the bucket, each large object read to its end
// and hashed. With the s3 backend cfg.Dir may be empty. The old index is
// replaced when the new one is complete; a rebuild that was cut off is run
// again. progress may be nil.
func Rebuild(ctx context.Context, cfg Config, deps Deps, progress func(RebuildProgress)) (RebuildReport, error) {
	if err := cfg.Validate(); err != nil {
		return RebuildReport{}, err
	}
	if cfg.Backend == BackendMemory {
		return RebuildReport{}, status.Errorf(status.Amnesia, "store: the memory backend has no index to rebuild; set store.backend")
	}
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	if deps.FS == nil {
		deps.FS = vfs.Default
		dir, err := filepath.Abs(cfg.Dir)
		if err != nil {
			return RebuildReport{}, fmt.Errorf("store.dir: %w", err)
		}
		cfg.Dir = dir
	}
	r := &rebuild{
		ctx: ctx, d: newDisk(cfg, deps, bucket.NewMeters(cfg.S3, deps.Limits, deps.Metrics), newClock(time.Now)), tell: progress,
	}
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
	if err != nil {
		return RebuildReport{}, fmt.Errorf("store: rebuild: %w", err)
	}
	return r.report, nil
}

// rebuild is one run.
type rebuild struct {
	ctx    context.Context // of the run
	d      *disk
	tell   func(RebuildProgress)
	unlock func() error
	at     RebuildProgress
	report RebuildReport
}

// run fills index.new.
func (r *rebuild) run() error {
	d := r.d
	if err := r.prepare(); err != nil {
		return err
	}
	if err := d.fs.RemoveAll(d.path(dirNewIndex)); err != nil {
		return writeError("remove a directory", err)
	}
	if err := emptyDir(d.fs, d.path(dirTemp)); err != nil {
		return err
	}
	var err error
	if d.index, err = openIndex(d.fs, d.path(dirNewIndex), int64(d.cfg.IndexCache), true, d.log); err != nil {
		return indexError(d.path(dirNewIndex), err)
	}
	if d.cloud == nil {
		err = d.notEmbedded()
	} else {
		err = r.connect()
	}
	if err != nil {
		return err
	}
	d.makeParts()
	if err := r.replay(); err != nil {
		return err
	}
	if err := r.adopt(); err != nil {
		return err
	}
	if err := r.settle(); err != nil {
		return err
	}
	return d.index.sync()
}

// prepare locks the directory and sees that it is a store, or becomes one.
func (r *rebuild) prepare() error {
	d := r.d
	if _, err := d.fs.Stat(d.cfg.Dir); d.cloud == nil && errors.Is(err, fs.ErrNotExist) {
		return status.Errorf(status.NotFound, "there is no store in %s", d.cfg.Dir)
	}
	if err := makeDir(d.fs, d.cfg.Dir); err != nil {
		return err
	}
	version, err := d.checkFormat()
	if err != nil {
		return err
	}
	if version == 0 && d.cloud == nil {
		return status.Errorf(status.NotFound, "there is no store in %s", d.cfg.Dir)
	}
	lock, err := lockDir(d.fs, d.cfg.Dir)
	if err != nil {
		return err
	}
	r.unlock = lock.Close
	if version == 0 {
		if err := d.makeLayout(); err != nil {
			return err
		}
		return d.writeFile(fileFormat, formatText(formatVersion))
	}
	return nil
}

// settle counts what there is, and has the log go on in a new segment: what is
// at the end of the last one may be torn, or in the bucket already.
func (r *rebuild) settle() error {
	d := r.d
	err := d.index.eachEntry(func(e entry) error {
		r.report.Objects++
		r.report.Bytes += e.size
		return nil
	})
	if err != nil {
		return err
	}
	if err := d.index.eachPin(func(Pin, uint64) error { r.report.Pins++; return nil }); err != nil {
		return err
	}
	nums, err := d.segments.list()
	if err != nil {
		return err
	}
	last := uint64(0)
	if len(nums) > 0 {
		last = nums[len(nums)-1]
	}
	return d.index.set(keyWatermark, encodePosition(position{seg: last + 1, off: segmentHeaderSize}), true)
}

// swap puts the new index, which is closed, in the place of the old one.
func (r *rebuild) swap() error {
	f, index, old := r.d.fs, r.d.path(dirIndex), r.d.path(dirOldIndex)
	if err := f.RemoveAll(old); err != nil {
		return writeError("remove a directory", err)
	}
	if err := f.Rename(index, old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return writeError("rename the old index", err)
	}
	if err := f.Rename(r.d.path(dirNewIndex), index); err != nil {
		return writeError("rename the new index", err)
	}
	if err := syncDir(f, r.d.cfg.Dir); err != nil {
		return err
	}
	if err := f.RemoveAll(old); err != nil {
		return writeError("remove the old index", err)
	}
	return nil
}

func (r *rebuild) progress() {
	if r.tell != nil {
		r.tell(r.at)
	}
}
