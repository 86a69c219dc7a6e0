package disk

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/blob"
	"allium/store/bucket"
	"allium/store/cloud"
	"allium/store/damage"
	"allium/store/fsys"
	"allium/store/index"
	"allium/store/meta"
	"allium/store/segment"
)

// Backend is the embedded backend: files in one directory, as store/FORMAT.md has it.
// Small objects are in the log, large ones are files; the index knows both.
type Backend struct {
	*blob.Files // of large objects and unfinished ones; nil before Open

	cfg    Options
	raw    vfs.FS // below fs
	fs     *fsys.Sparing
	dir    *layout
	disk   *reserve // with why the store is only read, if it is
	log    *slog.Logger
	budget *limits.Budget
	count  meta.Totals
	cloud  *cloud.Cloud // nil: everything is in the directory

	lock     io.Closer
	damage   *damage.List
	aside    *damage.Quarantine
	opened   chan struct{} // closed when the store is ready
	index    *index.Index
	segments *segment.Log
	compact  *segment.Compactor
	orders   *limits.Budget
}

// Options say what a backend works on.
type Options struct {
	Dir string
	FS  vfs.FS

	ReserveBytes   limits.Bytes // that writes leave free on the disk
	SegmentBytes   limits.Bytes // at which a segment is closed
	ZeroAheadBytes limits.Bytes // most bytes of zeros ahead of the end of the log
	CommitBytes    limits.Bytes // of small objects that wait for a commit; a batch is half of it
	CompactRate    limits.Bytes // bytes a second that compaction moves at most
	IndexCache     int64        // bytes of the index kept in RAM
	HashWorkers    int          // goroutines that hash one object in a rebuild

	SegmentFiles, IndexFiles int // files that are kept open

	Bucket *bucket.Config // nil: everything is in the directory
	Meters *bucket.Meters // of the bucket

	Log    *slog.Logger
	Clock  *meta.Clock
	Limits *limits.Registry

	Denied    func(root b3.Root) error                            // why an object must not be stored; may be nil
	Arrived   func(ctx context.Context, root b3.Root, size int64) // told of objects that were found; may be nil
	Shed      func() (closed int)                                 // closes files that are kept open only for speed; may be nil
	Recovered *atomic.Int64                                       // counts what opening has looked at; may be nil
}

// New returns a backend, which Open opens.
func New(o Options) *Backend {
	last := fsys.NewBallast(o.FS, o.Dir, ballastSize(int64(o.ReserveBytes)))
	d := &Backend{
		cfg: o, raw: o.FS, fs: fsys.NewSparing(last), log: o.Log, opened: make(chan struct{}),
		budget: o.Limits.NewBudget(limits.Spec{
			Name: "store.commit", Path: "puts → the segment writer (bytes)", Policy: "wait for the commit under way",
		}, int64(o.CommitBytes)),
		orders: o.Limits.NewBudget(limits.Spec{
			Name: "store.changes", Path: "removals, pins, large objects → the segment writer (bytes)", Policy: "wait for the commit under way",
		}, int64(o.CommitBytes)),
	}
	if o.Recovered == nil {
		d.cfg.Recovered = new(atomic.Int64)
	}
	d.dir = &layout{fs: d.fs, root: o.Dir}
	d.disk = &reserve{fs: d.fs, dir: o.Dir, bytes: int64(o.ReserveBytes), ballast: last.Ballast, log: o.Log}
	if o.Shed != nil {
		d.fs.Shed = o.Shed
	}
	d.damage = damage.NewList(d.fs, o.Dir, o.Log, time.Now)
	d.aside = damage.NewQuarantine(d.fs, o.Dir, o.Log, d.damage)
	if o.Bucket != nil {
		d.cloud = cloud.New(cloud.Options{
			Bucket: *o.Bucket, Meters: o.Meters, Log: o.Log, FS: d.fs, Dir: o.Dir, Damage: d.damage, Space: d.disk.space,
		})
	}
	return d
}

// Frozen reports whether the store is only read, as its disk takes no writes.
func (d *Backend) Frozen() bool { return d.disk.frozen != nil }

// Descriptors returns what became of the demand for file descriptors.
func (d *Backend) Descriptors() fsys.Descriptors { return d.fs.Stats() }

// Shed closes the segments that nobody reads right now, and returns how many. The
// backend is open.
func (d *Backend) Shed() int { return d.segments.Shed() }

// Segments returns the numbers of the segments on disk, ascending.
func (d *Backend) Segments() ([]uint64, error) { return d.segments.List() }

// CheckSegment reads one segment up to where it ended when the check began, and
// notes what cannot be read.
func (d *Backend) CheckSegment(ctx context.Context, num uint64) error {
	return d.segments.Check(ctx, num)
}

// Log returns the log, from Open on. It is for tests.
func (d *Backend) Log() *segment.Log { return d.segments }

// Serve implements the backend of a store.
func (d *Backend) Serve(ctx context.Context) {
	writing, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var writer, others sync.WaitGroup
	writer.Go(func() { d.segments.Serve(writing) })
	if d.disk.frozen == nil {
		others.Go(func() { d.compact.Serve(ctx) })
		others.Go(func() { d.Files.Serve(ctx, d.opened) })
		others.Go(func() { d.disk.serve(ctx) })
	}
	if d.cloud != nil {
		others.Go(func() { d.cloud.Serve(ctx, d.segments) })
	}
	<-ctx.Done()
	others.Wait()
	// What fails is sticky, and close returns it; nobody was told of the rest.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastUpload)
	defer cancel()
	_ = d.Files.Flush(last)
	_ = d.Forget() // or the next start unlinks
	stop()
	writer.Wait()
	if d.cloud != nil {
		d.cloud.Ship(last, d.segments)
	}
}

// lastUpload is how long a store that closes waits for the bucket.
const lastUpload = 3 * time.Second

// Ready implements the backend of a store.
func (d *Backend) Ready() { close(d.opened) }

// Close implements the backend of a store.
func (d *Backend) Close() error {
	if d.disk.frozen != nil {
		return d.release()
	}
	if failed := d.index.Damage(); failed != nil {
		d.NoteIndexDamage(failed)
	}
	err := d.Files.Close()
	if e := d.Failure(); err == nil {
		err = e
	}
	if summary, ok := d.segments.Summary(); ok && err == nil {
		err = d.index.SetClean(summary)
		if status.Of(err) == status.NoSpace {
			d.log.Warn("the disk is full; the next start reads the end of the log again", "err", err)
			err = nil
		}
	}
	if e := d.release(); err == nil {
		err = e
	}
	return err
}

// NoteIndexDamage has the next start make the index anew. The time is part of the
// finding: an index may be damaged again, long after it was mended.
func (d *Backend) NoteIndexDamage(why error) {
	d.damage.Add(meta.Damage{Kind: meta.DamageIndex, State: meta.DamageOpen, File: fsys.DirIndex, Offset: d.damage.Now().UnixNano(), Reason: why.Error()})
}

// release gives back what open acquired, as far as it came.
func (d *Backend) release() error {
	var errs []error
	if d.segments != nil {
		d.segments.Close()
	}
	if d.cloud != nil {
		d.cloud.Close()
	}
	if d.index != nil {
		errs = append(errs, d.index.Close())
	}
	if d.lock != nil {
		errs = append(errs, d.lock.Close())
	}
	return errors.Join(errs...)
}

// Get implements the backend of a store.
func (d *Backend) Get(root b3.Root) (meta.Entry, bool, error) {
	e, ok, err := d.index.Get(root)
	if ok {
		err = d.segments.Uncertain(root)
	}
	return e, ok && err == nil, err
}

// GetAll implements the backend of a store.
func (d *Backend) GetAll(roots []b3.Root) ([]meta.Entry, error) {
	es, err := d.index.GetAll(roots)
	for i := range es {
		if err == nil && !es[i].Root.IsZero() {
			err = d.segments.Uncertain(es[i].Root)
		}
	}
	return es, err
}

// Entries implements the backend of a store.
func (d *Backend) Entries(root b3.Root, page []meta.Entry) ([]meta.Entry, error) {
	first := len(page)
	err := d.index.Entries(root, func(e meta.Entry) bool {
		e.Used = e.Added
		page = append(page, e)
		return len(page) < cap(page)
	})
	if err != nil || len(page) == first {
		return page, err
	}
	return page, d.index.Uses(page[first:])
}

// Read implements the backend of a store.
func (d *Backend) Read(e meta.Entry) ([]byte, error) { return d.segments.Read(e) }

// Put implements the backend of a store.
func (d *Backend) Put(ctx context.Context, root b3.Root, p []byte, deferred bool, counted func()) (bool, error) {
	return d.segments.Put(ctx, root, p, deferred, counted)
}

// Flush implements the backend of a store.
func (d *Backend) Flush(ctx context.Context) error {
	if err := d.segments.Flush(ctx); err != nil {
		return err
	}
	return d.Files.Flush(ctx)
}

// RemoveAll does not stop waiting when the context ends: whether the object will
// be gone must be known before somebody may put it again.
func (d *Backend) RemoveAll(_ context.Context, es []meta.Entry) error {
	if len(es) == 0 {
		return nil
	}
	removed, err := d.segments.Remove(es)
	if err != nil {
		return err
	}
	large := 0
	for _, e := range removed {
		if !meta.Small(e.Size) {
			d.Unlink(e.Root)
			large++
		}
	}
	if d.cloud != nil {
		d.cloud.Removed(large)
	}
	return nil
}

// Touch implements the backend of a store.
func (d *Backend) Touch(used map[b3.Root]meta.Second, age meta.Second) error {
	if d.disk.frozen != nil {
		return nil //nolint:nilerr // a use is a hint for evictions, of which there are none
	}
	return d.segments.Touch(used, age)
}

// UsedAt implements the backend of a store.
func (d *Backend) UsedAt(e meta.Entry) (meta.Second, error) { return d.index.UsedAt(e) }

// Mark implements the backend of a store.
func (d *Backend) Mark(e meta.Entry, corrupt bool) error {
	return d.segments.Mark(e, corrupt)
}

// SetPin implements the backend of a store.
func (d *Backend) SetPin(p meta.Pin) error { return d.segments.SetPin(p) }

// DropPin implements the backend of a store.
func (d *Backend) DropPin(root b3.Root, label string) (bool, error) {
	return d.segments.DropPin(root, label)
}

// Pins implements the backend of a store.
func (d *Backend) Pins(root b3.Root, label string, page []meta.Pin) ([]meta.Pin, error) {
	err := d.index.Pins(root, label, func(p meta.Pin, _ uint64) bool {
		page = append(page, p)
		return len(page) < cap(page)
	})
	return page, err
}

// Totals implements the backend of a store.
func (d *Backend) Totals() *meta.Totals { return &d.count }

// Usage implements the backend of a store.
func (d *Backend) Usage() meta.Usage {
	u := meta.Usage{
		LargeBytes: d.count.LargeBytes.Load(), OutboardBytes: d.count.OutboardBytes.Load(),
	}
	u.Compactions, u.CompactedBytes, u.ReclaimedBytes = d.compact.Stats()
	log := d.segments.Usage()
	u.Segments, u.Spares, u.SpareBytes, u.SegmentBytes, u.SegmentLiveBytes = log.Segments, log.Spares, log.SpareBytes, log.Bytes, log.LiveBytes
	u.QuarantineFiles, u.QuarantineBytes = d.aside.Held()
	u.BallastBytes = d.disk.ballast.Held()
	u.IndexBytes = d.index.DiskBytes()
	u.FreeBytes, _ = d.disk.free()
	return u
}

// Failure implements the backend of a store.
func (d *Backend) Failure() error {
	if d.disk.frozen != nil {
		return d.disk.frozen
	}
	for _, failure := range []func() error{d.index.Failure, d.segments.Failure, d.Files.Failure} {
		if err := failure(); err != nil {
			return err
		}
	}
	return nil
}

// Damages implements the backend of a store.
func (d *Backend) Damages() *damage.List { return d.damage }

// Free is what the disk has left, the ballast among it, and what the compactor is
// about to give back of it. When that is needed the compactor is told.
func (d *Backend) Free() (free, coming int64, known bool) {
	if free, known = d.disk.free(); !known {
		return -1, 0, false
	}
	return free, d.compact.Coming(), true
}

// ScrubState implements scrubPlace.
func (d *Backend) ScrubState() ([]byte, error) {
	return d.index.Scrub()
}

// SetScrubState implements scrubPlace.
func (d *Backend) SetScrubState(v []byte) error { return d.index.SetScrub(v) }

// Away implements the backend of a store.
func (d *Backend) Away() error {
	if d.cloud == nil {
		return nil
	}
	return d.cloud.Away()
}

// Refused implements the backend of a store.
func (d *Backend) Refused() <-chan error {
	if d.cloud == nil {
		return nil
	}
	return d.cloud.Refused()
}
