package disk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"allium/protocols/status"
	"allium/store/bucket/cloud"
	"allium/store/disk/blob"
	"allium/store/disk/fsys"
	"allium/store/disk/segment"
	"allium/store/disk/tables"
	"allium/store/meta"
)

// openAt locks the directory, creates or checks its files, and recovers.
func (d *Backend) openAt(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			_ = d.release() // err says more
		}
	}()
	d.disk.ballast.Load()
	if err := fsys.MakeDir(d.fs, d.cfg.Dir); err != nil {
		return err
	}
	if _, err := d.dir.version(); err != nil {
		return err // do not create LOCK in a directory that is no store
	}
	if d.lock, err = d.dir.lock(); err != nil {
		return err
	}
	version, err := d.dir.version()
	if err != nil {
		return err
	}
	fresh := version == 0
	if fresh {
		err = d.dir.create()
	} else {
		err = d.dir.upgrade(version)
	}
	if err != nil {
		return err
	}
	if err := d.loadDamage(); err != nil {
		return err
	}
	isNew, err := d.openIndex(fresh)
	if err != nil {
		return err
	}
	if fresh {
		if err := d.index.LogComplete.Set(nil, true); err != nil {
			return err
		}
		if err := d.dir.writeFormat(); err != nil {
			return err
		}
	}
	if d.cloud == nil {
		err = d.checkNoBucket()
	} else {
		err = d.cloud.Open(ctx, d.index)
	}
	if err != nil {
		return err
	}
	if isNew {
		if err := d.fetchSegments(ctx); err != nil {
			return err
		}
	} else if d.cloud != nil {
		if err := d.cloud.FetchMissing(ctx); err != nil {
			return err
		}
	}
	err = d.recover(ctx, isNew)
	if isNew || !tables.Damaged(err) {
		return err
	}
	// The index is damaged: rebuild it from the log.
	if err := d.replaceIndex(err); err != nil {
		return err
	}
	if d.cloud != nil {
		d.cloud.Reopen(d.index)
	}
	if err := d.fetchSegments(ctx); err != nil {
		return err
	}
	return d.recover(ctx, true)
}

// loadDamage reads the list of damage and the list of quarantined files, and adds
// damage of FORMAT.
func (d *Backend) loadDamage() error {
	if err := d.damage.Load(); err != nil {
		return err
	}
	if err := d.quarantine.Load(); err != nil {
		return err
	}
	if d.dir.badFormat != "" {
		d.addFinding(meta.DamageFormat, meta.DamageMended, fsys.FileFormat, d.dir.badFormat)
	}
	return nil
}

// indexIn opens the index in dir.
func (d *Backend) indexIn(dir string, fresh bool) (*tables.Index, error) {
	return tables.Open(tables.Options{
		FS: d.fs, Dir: dir, Cache: d.cfg.IndexCache, Files: d.cfg.IndexFiles, Fresh: fresh, NoCompactions: d.ReadOnly(),
		Log:        d.log,
		CheckSpace: d.disk.indexSpace, FilterBytes: d.bytes.filter,
	})
}

// openIndex opens the index, or makes an empty one if it is damaged or missing. All
// that an index says is in the log, or can be found again. isNew reports that the log
// must be replayed from its beginning.
func (d *Backend) openIndex(fresh bool) (isNew bool, err error) {
	for _, x := range d.damage.All() {
		if x.Kind == meta.DamageIndex && x.State == meta.DamageOpen { // found while the store ran
			return true, d.replaceIndex(errors.New(x.Reason))
		}
	}
	d.index, err = d.indexIn(d.dir.path(fsys.DirIndex), fresh)
	if err == nil {
		return false, nil
	}
	if _, ok := status.System(err); ok {
		return false, indexError(d.dir.path(fsys.DirIndex), err)
	}
	return true, d.replaceIndex(err)
}

// replaceIndex renames the index to index.damaged and makes an empty one. why is what
// is wrong with the index.
func (d *Backend) replaceIndex(why error) error {
	if d.index != nil {
		d.index.Abandon()
		d.index = nil
	}
	if err := blob.ClearUnnoted(d.fs, d.cfg.Dir); err != nil {
		return err
	}
	dir, damaged := d.dir.path(fsys.DirIndex), d.dir.path(fsys.DirDamagedIndex)
	if err := d.fs.RemoveAll(damaged); err != nil {
		return meta.WriteError("remove an older damaged index", err)
	}
	if err := d.fs.Rename(dir, damaged); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return meta.WriteError("rename the damaged index", err)
	}
	if err := fsys.SyncDir(d.fs, d.cfg.Dir); err != nil {
		return err
	}
	var err error
	if d.index, err = d.indexIn(dir, true); err != nil {
		return indexError(dir, err)
	}
	if err := d.index.LogComplete.Set(nil, false); err != nil {
		return err
	}
	reason := fmt.Sprintf("the index is rebuilt from the log: %v", why)
	n, err := d.damage.Update(func(x *meta.Damage) bool {
		if x.Kind != meta.DamageIndex || x.State != meta.DamageOpen {
			return false
		}
		x.State = meta.DamageMended
		return true
	})
	if err == nil && n == 0 {
		d.addFinding(meta.DamageIndex, meta.DamageMended, fsys.DirIndex, reason)
	}
	return err
}

// fetchSegments fetches the segments that are only in the bucket, and notes in a new
// index which segments the bucket has.
func (d *Backend) fetchSegments(ctx context.Context) error {
	if d.cloud == nil {
		return nil
	}
	_, err := d.cloud.FetchSegments(ctx)
	return err
}

// recover makes the index agree with the log and the files. isNew is true for an
// index that has been made empty.
func (d *Backend) recover(ctx context.Context, isNew bool) error {
	d.newParts()
	d.count.Clear()
	clean, err := d.wasClean()
	if err != nil {
		return err
	}
	if err := fsys.EmptyDir(d.fs, d.dir.path(fsys.DirTemp)); err != nil {
		return err
	}
	if err := d.segments.Recover(ctx, clean, isNew, nil); err != nil {
		return err
	}
	if err := d.Files.Recover(clean); err != nil {
		return err
	}
	if !clean {
		if err := d.segments.Recount(); err != nil {
			return err
		}
	}
	if err := d.index.Clean.Drop(); err != nil { // also one of an older format
		return err
	}
	return d.segments.FinishOpen()
}

// newParts makes the log, the files and the compactor, which use the open index.
func (d *Backend) newParts() {
	o := segment.Options{
		FS: d.fs, Dir: d.cfg.Dir, Log: d.log, Clock: d.cfg.Clock, Index: d.index, Totals: &d.count, Damage: d.damage,
		CheckSpace: d.disk.space, Quarantine: d.quarantine.Put, ObjectBudget: d.bytes.objects,
		ChangeBudget: d.bytes.changes,
		MaxBatch:     int(d.cfg.CommitBytes / 2),
		SegmentBytes: int64(d.cfg.SegmentBytes), OpenFiles: d.cfg.SegmentFiles,
		MaxZeroAhead: int64(d.cfg.ZeroAheadBytes),
		Recovered:    d.cfg.Recovered,
	}
	if d.cloud != nil {
		o.Bucket = d.cloud
	}
	d.segments = segment.New(o)
	files := blob.Options{
		FS: d.fs, Dir: d.cfg.Dir, Log: d.log, Index: d.index, Commit: d.segments, Space: d.disk.space,
		Quarantine: d.quarantine, Damage: d.damage, Filter: d.cfg.Filter, Adopted: d.cfg.Adopted,
	}
	if d.cloud != nil {
		files.Remote = d.cloud
	}
	d.Files = blob.New(files)
	d.compact = segment.NewCompactor(d.segments, segment.CompactOptions{
		Log: d.log, Rate: int64(d.cfg.CompactRate),
		CheckSpace: func(need int64) error { return d.disk.spaceBeyond(int64(d.cfg.ReserveBytes)/2, need) },
		Short:      func() bool { return d.disk.space(int64(d.cfg.SegmentBytes)) != nil },
	})
}

// wasClean reports whether the store was closed cleanly. If so, it loads the saved
// counters.
func (d *Backend) wasClean() (bool, error) {
	if _, known, err := d.index.Segments(); !known {
		if err == nil { // the store is older than format 3, or the index is new
			// Drop the mark now: after a crash during recovery it would be wrong.
			err = d.index.Clean.Drop()
		}
		return false, err
	}
	v, ok, err := d.index.Clean.Get()
	if ok {
		err = d.segments.RestoreTotals(v)
	}
	return ok && err == nil, err
}

// indexError wraps the error of an index that cannot be opened with what to do.
func indexError(dir string, err error) error {
	if e := meta.MachineError("open the index in "+dir, err); e != nil {
		return e
	}
	if meta.Known(err) {
		return fmt.Errorf("the index in %s: %w", dir, err)
	}
	return status.Errorf(status.Corrupt,
		"the index in %s cannot be opened: %w; nothing was changed; rebuild it with `allium store rebuild`", dir, err)
}

// checkNoBucket returns an error if the objects of the directory are in a bucket.
func (d *Backend) checkNoBucket() error {
	node, err := cloud.NodeOf(d.fs, d.cfg.Dir)
	if err == nil && node != "" {
		return status.Errorf(status.Conflict, "%s is the store of node %q in a bucket; "+
			"set store.backend = %q and store.s3, or use another directory", d.cfg.Dir, node, "s3")
	}
	return err
}
