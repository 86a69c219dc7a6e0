package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/protocols/admission"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/bucket"
)

// disk is the embedded backend: files in one directory, as FORMAT.md has it.
// Small objects are in segments, large ones in blobs; the index knows both.
type disk struct {
	cfg    Config
	fs     vfs.FS
	log    *slog.Logger
	budget *admission.Budget
	count  totals
	cloud  *cloud // nil: everything is in the directory

	lock     io.Closer
	index    *index
	segments *segments
	blobs    *blobs
	compact  *compactor
	orders   *admission.Budget
}

func newDisk(cfg Config, deps Deps, meters *bucket.Meters) *disk {
	d := &disk{
		cfg: cfg, fs: deps.FS, log: deps.Log,
		budget: deps.Limits.NewBudget(admission.Spec{
			Name: "store.commit", Path: "puts → the segment writer (bytes)", Policy: "wait for the commit under way",
		}, int64(cfg.CommitBytes)),
		orders: deps.Limits.NewBudget(admission.Spec{
			Name: "store.changes", Path: "removals, pins, large objects → the segment writer (bytes)", Policy: "wait for the commit under way",
		}, int64(cfg.CommitBytes)),
	}
	if cfg.Backend == BackendS3 {
		d.cloud = newCloud(cfg.S3, meters, deps.Log)
	}
	return d
}

func (d *disk) path(elem ...string) string {
	return d.fs.PathJoin(append([]string{d.cfg.Dir}, elem...)...)
}

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
		fs: d.fs, dir: d.path(dirSegments), logger: d.log, index: d.index, count: &d.count, space: d.space,
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

// space refuses a write that would leave less than the reserve free. File
// systems that cannot tell are taken at their word.
func (d *disk) space(need int64) error { return d.spaceBut(int64(d.cfg.ReserveBytes), need) }

func (d *disk) spaceBut(reserve, need int64) error {
	if u, err := d.fs.GetDiskUsage(d.cfg.Dir); err == nil {
		if left := int64(u.AvailBytes) - reserve; left < need {
			return noSpace("the disk is full (store.reserve_bytes are kept free)", max(0, left), need)
		}
	}
	return nil
}

func (d *disk) serve(ctx context.Context) {
	writing, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var writer, others sync.WaitGroup
	writer.Go(func() { d.segments.serve(writing) })
	others.Go(func() { d.compact.serve(ctx) })
	if d.cloud != nil {
		others.Go(func() { d.cloud.serve(ctx, d.segments) })
	}
	<-ctx.Done()
	others.Wait()
	// What fails is sticky, and close returns it; nobody was told of the rest.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastUpload)
	defer cancel()
	_ = d.blobs.flush(last)
	stop()
	writer.Wait()
	if d.cloud != nil {
		d.cloud.shipAll(last, d.segments)
	}
}

func (d *disk) close() error {
	err := d.blobs.close()
	if e := d.failure(); err == nil {
		err = e
	}
	if err == nil && !d.segments.stalled { // a batch that failed may stand behind the watermark
		err = d.index.set(keyClean, encodeTotals(&d.count, d.segments.use.snapshot()), true)
	}
	if e := d.release(); err == nil {
		err = e
	}
	return err
}

// release gives back what open acquired, as far as it came.
func (d *disk) release() error {
	var errs []error
	if d.segments != nil {
		d.segments.close()
	}
	if d.cloud != nil {
		d.cloud.close()
	}
	if d.index != nil {
		errs = append(errs, d.index.close())
	}
	if d.lock != nil {
		errs = append(errs, d.lock.Close())
	}
	return errors.Join(errs...)
}

func (d *disk) get(root b3.Root) (entry, bool, error) {
	e, ok, err := d.index.get(root)
	if ok && d.segments.doubts.Load() {
		err = d.segments.doubt(root)
	}
	return e, ok && err == nil, err
}

func (d *disk) entries(root b3.Root, page []entry) ([]entry, error) {
	first := len(page)
	err := d.index.entries(root, func(e entry) bool {
		e.used = e.added
		page = append(page, e)
		return len(page) < cap(page)
	})
	if err != nil || len(page) == first {
		return page, err
	}
	return page, d.index.uses(page[first:])
}

func (d *disk) read(e entry) ([]byte, error) { return d.segments.read(e) }

func (d *disk) put(ctx context.Context, root b3.Root, p []byte, deferred bool) (bool, error) {
	return d.segments.put(ctx, root, p, deferred)
}

func (d *disk) stage(root b3.Root) (*staging, error) { return d.blobs.stage(root) }

func (d *disk) openPair(e entry) (pair, error) { return d.blobs.open(e) }

func (d *disk) publish(ctx context.Context, root b3.Root, size int64, st *staging, deferred bool, done func()) (bool, error) {
	return d.blobs.publish(ctx, &publication{root: root, size: size, st: st, done: done}, deferred)
}

func (d *disk) discard(st *staging) error { return d.blobs.discard(st) }

func (d *disk) flush(ctx context.Context) error {
	if err := d.segments.flush(ctx); err != nil {
		return err
	}
	return d.blobs.flush(ctx)
}

// removeAll does not stop waiting when the context ends: whether the object will
// be gone must be known before somebody may put it again.
func (d *disk) removeAll(_ context.Context, es []entry) error {
	if len(es) == 0 {
		return nil
	}
	cs := make([]*change, len(es))
	for i, e := range es {
		cs[i] = &change{kind: changeRemove, e: e}
	}
	if err := d.segments.do(cs...); err != nil {
		return err
	}
	for _, c := range cs {
		if c.did && !small(c.e.size) {
			d.blobs.remove(c.e.root)
		}
	}
	if d.cloud != nil {
		d.cloud.removed(cs)
	}
	return nil
}

func (d *disk) touch(used map[b3.Root]minute) error {
	for chunk := range slices.Chunk(slices.Collect(maps.Keys(used)), touchChunk) {
		c := &change{kind: changeTouch, used: make(map[b3.Root]minute, len(chunk))}
		for _, root := range chunk {
			c.used[root] = used[root]
		}
		if err := d.segments.do(c); err != nil {
			return err
		}
	}
	return nil
}

func (d *disk) usedAt(e entry) (minute, error) { return d.index.usedAt(e) }

func (d *disk) mark(e entry, corrupt bool) error {
	return d.segments.do(&change{kind: changeMark, e: e, on: corrupt})
}

func (d *disk) setPin(p Pin) error { return d.segments.do(&change{kind: changePin, pin: p}) }

func (d *disk) dropPin(root b3.Root, label string) (bool, error) {
	c := &change{kind: changeUnpin, pin: Pin{Root: root, Label: label}}
	err := d.segments.do(c)
	return c.did, err
}

func (d *disk) pins(root b3.Root, label string, page []Pin) ([]Pin, error) {
	err := d.index.pins(pinKey(root, label), func(p Pin, _ uint64) bool {
		page = append(page, p)
		return len(page) < cap(page)
	})
	return page, err
}

func (d *disk) totals() *totals { return &d.count }

func (d *disk) usage() Usage {
	u := Usage{
		LargeBytes: d.count.large.Load(), OutboardBytes: d.count.outboards.Load(),
		Compactions: d.compact.segments.Load(), CompactedBytes: d.compact.copied.Load(), ReclaimedBytes: d.compact.reclaimed.Load(),
	}
	u.Segments, u.SegmentBytes, u.SegmentLiveBytes = d.segments.use.sum()
	u.IndexBytes = int64(d.index.db.Metrics().DiskSpaceUsage())
	if du, err := d.fs.GetDiskUsage(d.cfg.Dir); err == nil {
		u.FreeBytes = int64(du.AvailBytes)
	}
	return u
}

func (d *disk) failure() error {
	for _, failure := range []func() error{d.index.failure, d.segments.failure, d.blobs.failure} {
		if err := failure(); err != nil {
			return err
		}
	}
	return nil
}

// indexError says what to do about an index that does not open.
func indexError(dir string, err error) error {
	if status.Of(err) != status.Internal {
		return fmt.Errorf("the index in %s: %w", dir, err)
	}
	return status.Errorf(status.Corrupt, "the index in %s cannot be opened: %w; nothing was changed; make it anew with `allium store rebuild`", dir, err)
}
