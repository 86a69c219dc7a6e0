package disk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"allium/protocols/status"
	"allium/store/blob"
	"allium/store/cloud"
	"allium/store/fsys"
	"allium/store/index"
	"allium/store/meta"
	"allium/store/segment"
)

// openAt locks the directory, creates or checks what is in it, and recovers.
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
		return err // before LOCK is created in a directory that is not ours
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
		err = d.dir.bringForward(version)
	}
	if err != nil {
		return err
	}
	if err := d.loadDamage(); err != nil {
		return err
	}
	anew, err := d.openIndex(fresh)
	if err != nil {
		return err
	}
	if fresh {
		if err := d.index.SetWhole(true); err != nil {
			return err
		}
		if err := d.dir.writeFormat(); err != nil {
			return err
		}
	}
	if d.cloud == nil {
		err = d.notEmbedded()
	} else {
		err = d.cloud.Open(ctx, d.index)
	}
	if err != nil {
		return err
	}
	if anew {
		if err := d.bringSegments(ctx); err != nil {
			return err
		}
	} else if d.cloud != nil {
		if err := d.cloud.FetchMissing(ctx); err != nil {
			return err
		}
	}
	err = d.recover(ctx, anew)
	if anew || !index.Damaged(err) {
		return err
	}
	// What the index says of the log cannot be read: the log says it anew.
	if err := d.renewIndex(err); err != nil {
		return err
	}
	if d.cloud != nil {
		d.cloud.Reopen(d.index)
	}
	if err := d.bringSegments(ctx); err != nil {
		return err
	}
	return d.recover(ctx, true)
}

// loadDamage reads what is known of damage, and notes that of FORMAT.
func (d *Backend) loadDamage() error {
	if err := d.damage.Load(); err != nil {
		return err
	}
	if err := d.aside.Load(); err != nil {
		return err
	}
	if d.dir.bad != "" {
		d.damage.Add(meta.Damage{Kind: meta.DamageFormat, State: meta.DamageMended, File: fsys.FileFormat, Offset: d.damage.Now().UnixNano(), Reason: d.dir.bad})
	}
	return nil
}

// indexIn opens the index in dir.
func (d *Backend) indexIn(dir string, fresh bool) (*index.Index, error) {
	return index.Open(index.Options{
		FS: d.fs, Dir: dir, Cache: d.cfg.IndexCache, Files: d.cfg.IndexFiles, Fresh: fresh, Still: d.Frozen(), Log: d.log, Room: d.disk.indexRoom,
	})
}

// openIndex opens the index, or makes a new one when it is damaged or missing:
// all it says is in the log, or can be found again.
func (d *Backend) openIndex(fresh bool) (anew bool, err error) {
	for _, x := range d.damage.All() {
		if x.Kind == meta.DamageIndex && x.State == meta.DamageOpen { // found while the store ran
			return true, d.renewIndex(errors.New(x.Reason))
		}
	}
	d.index, err = d.indexIn(d.dir.path(fsys.DirIndex), fresh)
	if err == nil {
		return false, nil
	}
	if _, ok := status.System(err); ok {
		return false, indexError(d.dir.path(fsys.DirIndex), err)
	}
	return true, d.renewIndex(err)
}

// renewIndex sets the index aside, as index.damaged, and makes an empty one. why
// says what was wrong.
func (d *Backend) renewIndex(why error) error {
	if d.index != nil {
		d.index.Abandon()
		d.index = nil
	}
	if err := blob.ClearUnnoted(d.fs, d.cfg.Dir); err != nil {
		return err
	}
	dir, aside := d.dir.path(fsys.DirIndex), d.dir.path(fsys.DirDamagedIndex)
	if err := d.fs.RemoveAll(aside); err != nil {
		return meta.WriteError("remove a damaged index", err)
	}
	if err := d.fs.Rename(dir, aside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return meta.WriteError("set the index aside", err)
	}
	if err := fsys.SyncDir(d.fs, d.cfg.Dir); err != nil {
		return err
	}
	var err error
	if d.index, err = d.indexIn(dir, true); err != nil {
		return indexError(dir, err)
	}
	if err := d.index.SetWhole(false); err != nil {
		return err
	}
	reason := fmt.Sprintf("the index is made anew from the log: %v", why)
	n, err := d.damage.Update(func(x *meta.Damage) bool {
		if x.Kind != meta.DamageIndex || x.State != meta.DamageOpen {
			return false
		}
		x.State = meta.DamageMended
		return true
	})
	if err == nil && n == 0 {
		d.damage.Add(meta.Damage{Kind: meta.DamageIndex, State: meta.DamageMended, File: fsys.DirIndex, Offset: d.damage.Now().UnixNano(), Reason: reason})
	}
	return err
}

// bringSegments fetches the segments that are only in the bucket, and notes in a
// new index what the bucket has.
func (d *Backend) bringSegments(ctx context.Context) error {
	if d.cloud == nil {
		return nil
	}
	_, err := d.cloud.FetchSegments(ctx)
	return err
}

// recover brings files and index together.
func (d *Backend) recover(ctx context.Context, anew bool) error {
	d.makeParts()
	d.count.Clear()
	clean, err := d.wasClean()
	if err != nil {
		return err
	}
	if err := fsys.EmptyDir(d.fs, d.dir.path(fsys.DirTemp)); err != nil {
		return err
	}
	if err := d.segments.Recover(ctx, clean, anew, nil); err != nil {
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
	if err := d.index.DropClean(); err != nil { // one of an older format too
		return err
	}
	return d.segments.Finish()
}

// makeParts makes what works on the index, which is open.
func (d *Backend) makeParts() {
	o := segment.Options{
		FS: d.fs, Dir: d.cfg.Dir, Log: d.log, Clock: d.cfg.Clock, Index: d.index, Totals: &d.count, Damage: d.damage,
		Space: d.disk.space, SetAside: d.aside.Put, Batches: d.budget, Changes: d.orders, Batch: int(d.cfg.CommitBytes / 2),
		SegmentBytes: int64(d.cfg.SegmentBytes), OpenFiles: d.cfg.SegmentFiles, ZeroAhead: int64(d.cfg.ZeroAheadBytes), Recovered: d.cfg.Recovered,
	}
	if d.cloud != nil {
		o.Bucket = d.cloud
	}
	d.segments = segment.New(o)
	files := blob.Options{
		FS: d.fs, Dir: d.cfg.Dir, Log: d.log, Index: d.index, Commit: d.segments, Space: d.disk.space, Quarantine: d.aside, Damage: d.damage,
		Denied: d.cfg.Denied, Arrived: d.cfg.Arrived,
	}
	if d.cloud != nil {
		files.Remote = d.cloud
	}
	d.Files = blob.New(files)
	d.compact = segment.NewCompactor(d.segments, segment.CompactOptions{
		Log: d.log, Rate: int64(d.cfg.CompactRate),
		Space: func(need int64) error { return d.disk.spaceBut(int64(d.cfg.ReserveBytes)/2, need) },
		Short: func() bool { return d.disk.space(int64(d.cfg.SegmentBytes)) != nil },
	})
}

// wasClean reports whether the store was closed in order, and then takes over
// the counters.
func (d *Backend) wasClean() (bool, error) {
	if _, known, err := d.index.Segments(); !known {
		if err == nil { // before format 3, or the index is new
			err = d.index.DropClean() // before the log says otherwise: a crash on the way would find it again
		}
		return false, err
	}
	v, ok, err := d.index.Clean()
	if ok {
		err = d.segments.Resume(v)
	}
	return ok && err == nil, err
}

// indexError says what to do about an index that does not open.
func indexError(dir string, err error) error {
	if e := meta.MachineError("open the index in "+dir, err); e != nil {
		return e
	}
	if status.Of(err) != status.Internal {
		return fmt.Errorf("the index in %s: %w", dir, err)
	}
	return status.Errorf(status.Corrupt, "the index in %s cannot be opened: %w; nothing was changed; make it anew with `allium store rebuild`", dir, err)
}

// notEmbedded refuses a directory whose objects are in a bucket.
func (d *Backend) notEmbedded() error {
	node, err := cloud.NodeOf(d.fs, d.cfg.Dir)
	if err == nil && node != "" {
		return status.Errorf(status.Conflict, "%s is the store of node %q in a bucket; set store.backend = %q and store.s3, or use another directory", d.cfg.Dir, node, "s3")
	}
	return err
}
