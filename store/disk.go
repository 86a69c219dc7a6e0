package store

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/protocols/admission"
	"allium/protocols/b3"
	"allium/store/bucket"
)

// disk is the embedded backend: files in one directory, as FORMAT.md has it.
// Small objects are in segments, large ones in blobs; the index knows both.
type disk struct {
	cfg    Config
	fs     vfs.FS
	log    *slog.Logger
	clock  *clock
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

func newDisk(cfg Config, deps Deps, meters *bucket.Meters, clock *clock) *disk {
	d := &disk{
		cfg: cfg, fs: deps.FS, log: deps.Log, clock: clock,
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
		others.Go(func() { d.cloud.watch(ctx, d) })
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

func (d *disk) put(ctx context.Context, root b3.Root, p []byte, deferred bool, counted func()) (bool, error) {
	return d.segments.put(ctx, root, p, deferred, counted)
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

func (d *disk) touch(used map[b3.Root]second) error {
	for chunk := range slices.Chunk(slices.Collect(maps.Keys(used)), touchChunk) {
		c := &change{kind: changeTouch, used: make(map[b3.Root]second, len(chunk))}
		for _, root := range chunk {
			c.used[root] = used[root]
		}
		if err := d.segments.do(c); err != nil {
			return err
		}
	}
	return nil
}

func (d *disk) usedAt(e entry) (second, error) { return d.index.usedAt(e) }

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
	d.segments.use.tell(&u)
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
