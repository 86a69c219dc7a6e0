package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
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
}

func newDisk(cfg Config, deps Deps, meters *bucket.Meters) *disk {
	d := &disk{
		cfg: cfg, fs: deps.FS, log: deps.Log,
		budget: deps.Limits.NewBudget(admission.Spec{
			Name: "store.commit", Path: "puts → the segment writer (bytes)", Policy: "wait for the commit under way",
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
	fresh, err := d.checkFormat()
	if err != nil {
		return err
	}
	if fresh {
		if err := d.makeLayout(); err != nil {
			return err
		}
	}
	if d.index, err = openIndex(d.fs, d.path(dirIndex), int64(d.cfg.IndexCache), fresh, d.log); err != nil {
		return indexError(d.path(dirIndex), err)
	}
	if fresh {
		if err := d.writeFile(fileFormat, formatText(formatVersion)); err != nil {
			return err
		}
	}
	if d.cloud == nil {
		err = d.notEmbedded()
	} else {
		err = d.cloud.open(ctx, d, fresh)
	}
	if err != nil {
		return err
	}
	return d.recover()
}

// recover brings files and index together.
func (d *disk) recover() error {
	d.blobs = newBlobs(d)
	d.segments = &segments{
		fs: d.fs, dir: d.path(dirSegments), index: d.index, count: &d.count, space: d.space,
		budget: d.budget, most: int(d.cfg.CommitBytes / 2), size: int64(d.cfg.SegmentBytes),
		current: newBatch(), kick: make(chan struct{}, 1),
		zeros: zeroer{most: int64(d.cfg.ZeroAheadBytes)},
	}
	clean, err := d.wasClean()
	if err != nil {
		return err
	}
	if err := emptyDir(d.fs, d.path(dirTemp)); err != nil {
		return err
	}
	if err := d.segments.recover(clean); err != nil {
		return err
	}
	if err := d.blobs.settleParts(); err != nil {
		return err
	}
	if clean {
		return d.index.drop(keyClean)
	}
	if err := d.blobs.removeOrphans(); err != nil {
		return err
	}
	return d.index.entries(b3.Root{}, func(e entry) bool { d.count.add(e); return true })
}

// wasClean reports whether the store was closed in order, and then takes over
// the counters.
func (d *disk) wasClean() (bool, error) {
	v, done, ok, err := d.index.read(keyClean)
	if !ok {
		return false, err
	}
	defer done.Close()
	return true, decodeTotals(v, &d.count)
}

// space refuses a write that would leave less than the reserve free. File
// systems that cannot tell are taken at their word.
func (d *disk) space(need int64) error {
	if u, err := d.fs.GetDiskUsage(d.cfg.Dir); err == nil {
		if left := int64(u.AvailBytes) - int64(d.cfg.ReserveBytes); left < need {
			return noSpace("the disk is full (store.reserve_bytes are kept free)", max(0, left), need)
		}
	}
	return nil
}

func (d *disk) serve(ctx context.Context) {
	var wg sync.WaitGroup
	if d.cloud != nil {
		wg.Go(func() { d.cloud.serve(ctx, d.segments) })
	}
	d.segments.serve(ctx)
	// What fails is sticky, and close returns it; nobody was told of the rest.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastUpload)
	defer cancel()
	_ = d.blobs.flush(last)
	wg.Wait()
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
		err = d.index.set(keyClean, encodeTotals(&d.count), true)
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

func (d *disk) get(root b3.Root) (entry, bool, error) { return d.index.get(root) }

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

func (d *disk) removeAll(_ context.Context, es []entry) error {
	batch := d.index.db.NewBatch()
	var gone []entry
	for _, e := range es {
		now, ok, err := d.index.get(e.root)
		if err != nil {
			return errors.Join(err, batch.Close())
		}
		if !ok || !now.sameAs(e) {
			continue
		}
		for _, kind := range []byte{keyObject, keyUse} {
			if err := batch.Delete(rootKey(kind, e.root), nil); err != nil {
				return errors.Join(err, batch.Close())
			}
		}
		if d.cloud != nil && !small(now.size) {
			if err := d.cloud.removed(batch, e.root); err != nil {
				return errors.Join(err, batch.Close())
			}
		}
		gone = append(gone, now)
	}
	if err := d.index.apply(batch, true); err != nil {
		return err
	}
	for _, e := range gone {
		d.count.sub(e)
		if !small(e.size) {
			d.blobs.remove(e.root)
		}
	}
	if d.cloud != nil {
		d.cloud.wake()
	}
	return nil
}

func (d *disk) touch(used map[b3.Root]minute) error {
	batch := d.index.db.NewBatch()
	for root, at := range used {
		e, ok, err := d.index.get(root)
		if err == nil && ok {
			var last minute
			if last, err = d.index.usedAt(e); err == nil && at > last {
				err = batch.Set(rootKey(keyUse, root), binary.AppendUvarint(nil, uint64(at)), nil)
			}
		}
		if err != nil {
			return errors.Join(err, batch.Close())
		}
	}
	return d.index.apply(batch, false)
}

func (d *disk) usedAt(e entry) (minute, error) { return d.index.usedAt(e) }

func (d *disk) mark(e entry, corrupt bool) error {
	now, ok, err := d.index.get(e.root)
	if err != nil || !ok || now.corrupt == corrupt || !now.sameAs(e) {
		return err
	}
	d.count.sub(now)
	now.corrupt = corrupt
	d.count.add(now)
	return d.index.set(rootKey(keyObject, e.root), appendEntry(nil, now), false)
}

func (d *disk) setPin(p Pin) error {
	return d.index.set(pinKey(p.Root, p.Label), appendPin(nil, p), true)
}

func (d *disk) dropPin(root b3.Root, label string) (bool, error) {
	key := pinKey(root, label)
	_, done, ok, err := d.index.read(key)
	if !ok {
		return false, err
	}
	_ = done.Close() // of memory
	return true, d.index.drop(key)
}

func (d *disk) pins(root b3.Root, label string, page []Pin) ([]Pin, error) {
	err := d.index.scan(pinKey(root, label), []byte{keyPin + 1}, func(k, v []byte) (bool, error) {
		p, err := decodePin(k, v)
		if err != nil {
			return false, err
		}
		page = append(page, p)
		return len(page) < cap(page), nil
	})
	return page, err
}

func (d *disk) totals() *totals { return &d.count }

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
	return status.Errorf(status.Corrupt, "the index in %s cannot be opened: %w; nothing was changed, restore it from a copy", dir, err)
}
