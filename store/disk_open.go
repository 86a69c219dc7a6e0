package store

import (
	"context"
	"fmt"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// open locks the directory, creates or checks what is in it, and recovers.
func (d *disk) open(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			_ = d.release() // err says more
		}
	}()
	if err := makeDir(d.fs, d.cfg.Dir); err != nil {
		return err
	}
	if _, err := d.checkFormat(); err != nil {
		return err // before LOCK is created in a directory that is not ours
	}
	if d.lock, err = lockDir(d.fs, d.cfg.Dir); err != nil {
		return err
	}
	version, err := d.checkFormat()
	if err != nil {
		return err
	}
	fresh := version == 0
	if fresh {
		err = d.makeLayout()
	} else if version < formatVersion {
		// What is there is valid in this version; recover completes it.
		err = d.writeFile(fileFormat, formatText(formatVersion))
	}
	if err != nil {
		return err
	}
	if d.index, err = openIndex(d.fs, d.path(dirIndex), int64(d.cfg.IndexCache), fresh, d.log); err != nil {
		return indexError(d.path(dirIndex), err)
	}
	if fresh {
		if err := d.index.set(keyWhole, nil, true); err != nil {
			return err
		}
		if err := d.writeFile(fileFormat, formatText(formatVersion)); err != nil {
			return err
		}
	}
	if d.cloud == nil {
		err = d.notEmbedded()
	} else {
		err = d.cloud.open(ctx, d)
	}
	if err != nil {
		return err
	}
	return d.recover()
}

// recover brings files and index together.
func (d *disk) recover() error {
	d.makeParts()
	use, clean, err := d.wasClean()
	if err != nil {
		return err
	}
	if err := emptyDir(d.fs, d.path(dirTemp)); err != nil {
		return err
	}
	if clean {
		d.segments.use.reset(use)
	}
	if err := d.segments.recover(clean); err != nil {
		return err
	}
	if err := d.blobs.settleParts(); err != nil {
		return err
	}
	if clean {
		err = d.index.drop(keyClean)
	} else if err = d.blobs.removeOrphans(); err == nil {
		err = d.recount()
	}
	if err != nil {
		return err
	}
	nudge(d.segments.tidy)
	return d.complete()
}

// makeParts makes what works on the index, which is open.
func (d *disk) makeParts() {
	d.segments = &segments{
		clock: d.clock,
		fs:    d.fs, dir: d.path(dirSegments), logger: d.log, index: d.index, count: &d.count, space: d.space,
		budget: d.budget, most: int(d.cfg.CommitBytes / 2), orders: d.orders, size: int64(d.cfg.SegmentBytes),
		current: newBatch(), queued: newChanges(), kick: make(chan struct{}, 1), tidy: make(chan struct{}, 1),
		zeros: zeroer{most: int64(d.cfg.ZeroAheadBytes)}, cloud: d.cloud,
	}
	d.blobs = newBlobs(d)
	d.compact = &compactor{
		s: d.segments, log: d.log, rate: int64(d.cfg.CompactRate),
		space: func(need int64) error { return d.spaceBut(int64(d.cfg.ReserveBytes)/2, need) },
		short: func() bool { return d.space(int64(d.cfg.SegmentBytes)) != nil },
	}
}

// wasClean reports whether the store was closed in order, and then takes over
// the counters.
func (d *disk) wasClean() (map[uint64]segmentUse, bool, error) {
	v, done, ok, err := d.index.read(keyClean)
	if !ok {
		return nil, false, err
	}
	defer done.Close()
	use, err := decodeTotals(v, &d.count)
	return use, err == nil, err
}

// recount counts what is in the index, and finds what each segment holds of it.
// The tombstones of earlier are not found again: they count for nothing until
// they are moved.
func (d *disk) recount() error {
	segs, err := d.segments.sizes()
	if err != nil {
		return err
	}
	add := func(seg uint64, n int64) {
		if u, ok := segs[seg]; ok {
			u.live += n
			segs[seg] = u
		}
	}
	err = d.index.entries(b3.Root{}, func(e entry) bool {
		d.count.add(e)
		add(e.seg, recordOf(e))
		return true
	})
	if err != nil {
		return err
	}
	err = d.index.pins(pinKey(b3.Root{}, ""), func(p Pin, seg uint64) bool {
		add(seg, pinRecordSize(p.Label))
		return true
	})
	d.segments.use.reset(segs)
	return err
}

// complete gives a store of format 1 a record for every large object and every
// pin, so that the log alone tells what is there. It does nothing to a store
// that has them.
func (d *disk) complete() error {
	_, done, ok, err := d.index.read(keyWhole)
	if err != nil {
		return err
	}
	if ok {
		return done.Close()
	}
	m := &mover{write: d.segments.direct, most: moveBatch / 2}
	err = d.index.eachEntry(func(e entry) error {
		if small(e.size) || e.seg != 0 {
			return nil
		}
		return m.add(&change{kind: moveFile, e: e})
	})
	if err == nil {
		err = d.index.eachPin(func(p Pin, seg uint64) error {
			if seg != 0 {
				return nil
			}
			return m.add(&change{kind: movePin, pin: p})
		})
	}
	if err == nil {
		err = m.flush()
	}
	if err != nil {
		return fmt.Errorf("bring the store to format %d: %w", formatVersion, err)
	}
	return d.index.set(keyWhole, nil, true)
}

// indexError says what to do about an index that does not open.
func indexError(dir string, err error) error {
	if status.Of(err) != status.Internal {
		return fmt.Errorf("the index in %s: %w", dir, err)
	}
	return status.Errorf(status.Corrupt, "the index in %s cannot be opened: %w; nothing was changed; make it anew with `allium store rebuild`", dir, err)
}
