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

	"allium/gateway/policy"
	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/bucket/cloud"
	"allium/store/bucket/s3"
	"allium/store/disk/blob"
	"allium/store/disk/damage"
	"allium/store/disk/fsys"
	"allium/store/disk/segment"
	"allium/store/disk/tables"
	"allium/store/meta"
	"allium/store/ram/arena"
)

// Backend is a backend whose files are in one directory. Small objects are in the
// log, large ones in files of their own or in a bucket; the index has both. It is
// safe for concurrent use between Open and Close.
type Backend struct {
	*blob.Files // large objects, downloads and uploads; nil before Open
	*segments   // small objects and pins; nil before Open

	cfg  Options
	raw  vfs.FS // below fs
	fs   *fsys.Sparing
	dir  *layout
	disk *reserve // also knows whether the store is read-only
	log  *slog.Logger

	bytes bytesInRAM

	count meta.Totals
	cloud *cloud.Cloud // nil without a bucket

	lock       io.Closer
	damage     *damage.List
	quarantine *damage.Quarantine
	opened     chan struct{} // closed when the store is ready
	index      *tables.Index
	compact    *segment.Compactor
}

// segments is the log under the name that it has in a Backend, which embeds it.
type segments = segment.Log

// Options are the settings and dependencies of a backend.
type Options struct {
	Dir string
	FS  vfs.FS

	ReserveBytes   limits.Bytes // free bytes that writes leave on the disk
	SegmentBytes   limits.Bytes // size at which a segment is closed
	ZeroAheadBytes limits.Bytes // largest number of zeros written ahead of the end of the log
	CommitBytes    limits.Bytes // bytes of small objects that may wait for a commit; a batch is at most half
	CompactRate    limits.Bytes // largest number of bytes per second that compaction moves
	IndexCache     int64        // bytes of the index cached in RAM
	HashWorkers    int          // goroutines that hash one object in a rebuild

	SegmentFiles, IndexFiles int // open files that the log and the index may cache

	Bucket *s3.Config // nil without a bucket
	Meters *s3.Meters // limits and metrics of the bucket

	Log    *slog.Logger
	Clock  *meta.Clock
	Limits *limits.Registry
	Filter policy.Filter // of objects found among the files

	// These may be nil.

	Adopted   func(ctx context.Context, root b3.Root, size int64) // called with objects found among the files
	Shed      func() (closed int)                                 // closes files that are cached open
	Recovered *atomic.Int64                                       // records and objects that opening has looked at
}

// New returns a backend, which Open opens.
func New(o Options) *Backend {
	withBallast := fsys.NewBallast(o.FS, o.Dir, ballastSize(int64(o.ReserveBytes)))
	d := &Backend{
		cfg: o, raw: o.FS, fs: fsys.NewSparing(withBallast), log: o.Log, opened: make(chan struct{}),
		bytes: newBytesInRAM(o),
	}
	if o.Recovered == nil {
		d.cfg.Recovered = new(atomic.Int64)
	}
	d.dir = &layout{fs: d.fs, root: o.Dir}
	d.disk = &reserve{
		fs: d.fs, dir: o.Dir, bytes: int64(o.ReserveBytes), ballast: withBallast.Ballast, log: o.Log,
	}
	if o.Shed != nil {
		d.fs.Shed = o.Shed
	}
	d.damage = damage.NewList(d.fs, o.Dir, o.Log, time.Now)
	d.quarantine = damage.NewQuarantine(d.fs, o.Dir, o.Log, d.damage)
	if o.Bucket != nil {
		d.cloud = cloud.New(cloud.Options{
			Bucket: *o.Bucket, Meters: o.Meters, Log: o.Log,
			FS: d.fs, Dir: o.Dir, Damage: d.damage, Space: d.disk.space,
		})
	}
	return d
}

// bytesInRAM bounds and counts bytes of a backend in RAM.
type bytesInRAM struct {
	objects *limits.Budget // small objects that wait for a commit
	changes *limits.Budget // other changes that wait for a commit
	filter  *atomic.Int64  // the filter of the roots in the index
}

func newBytesInRAM(o Options) bytesInRAM {
	b := bytesInRAM{
		objects: o.Limits.NewBudget(limits.Spec{
			Name:   "store.commit",
			Path:   "puts → the segment writer (bytes)",
			Policy: "wait for the running commit",
		}, int64(o.CommitBytes)),
		changes: o.Limits.NewBudget(limits.Spec{
			Name:   "store.changes",
			Path:   "removals, pins, large objects → the segment writer (bytes)",
			Policy: "wait for the running commit",
		}, int64(o.CommitBytes)),
		filter: new(atomic.Int64),
	}
	o.Limits.NewUsage(limits.Spec{
		Name:   "store.index_filter",
		Path:   "look-ups → the filter of the index (bytes)",
		Policy: "the index is asked itself",
	}, tables.MaxFilterBytes, b.filter.Load)
	return b
}

// ReadOnly reports whether the store is read-only because its disk takes no writes.
func (d *Backend) ReadOnly() bool { return d.disk.readOnly != nil }

// Arena returns nil: the bytes are on disk.
func (d *Backend) Arena() *arena.Arena { return nil }

// Descriptors returns how often the process was out of file descriptors.
func (d *Backend) Descriptors() fsys.Descriptors { return d.fs.Stats() }

// Serve implements the backend of a store.
func (d *Backend) Serve(ctx context.Context) {
	writing, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var writer, others sync.WaitGroup
	writer.Go(func() { d.segments.Serve(writing) })
	if d.disk.readOnly == nil {
		others.Go(func() { d.compact.Serve(ctx) })
		others.Go(func() { d.Files.Serve(ctx, d.opened) })
		others.Go(func() { d.disk.serve(ctx) })
	}
	if d.cloud != nil {
		others.Go(func() { d.cloud.Serve(ctx, d.segments) })
	}
	<-ctx.Done()
	others.Wait()
	// A failure of Flush is sticky and Close returns it. No deferred object that it
	// loses was acknowledged.
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	_ = d.Files.Flush(closing)
	_ = d.Forget() // if it fails, the next start unlinks the files
	stop()
	writer.Wait()
	if d.cloud != nil {
		d.cloud.Ship(closing, d.segments)
	}
}

// closeTimeout is the longest time that a store that closes waits for the bucket.
const closeTimeout = 3 * time.Second

// Ready implements the backend of a store.
func (d *Backend) Ready() { close(d.opened) }

// Close implements the backend of a store.
func (d *Backend) Close() error {
	if d.disk.readOnly != nil {
		return d.release()
	}
	if failed := d.index.Damage(); failed != nil {
		d.NoteIndexDamage(failed)
	}
	err := d.Files.Close()
	if e := d.Failure(); err == nil {
		err = e
	}
	if summary, ok := d.segments.EncodeTotals(); ok && err == nil {
		err = d.index.Clean.Set(summary, true)
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

// NoteIndexDamage adds a finding that makes the next start rebuild the index.
func (d *Backend) NoteIndexDamage(why error) {
	d.addFinding(meta.DamageIndex, meta.DamageOpen, fsys.DirIndex, why.Error())
}

// addFinding adds damage of a whole file. It has the time as its Event, because the same
// file may be damaged again later, and findings of one place are only added once.
func (d *Backend) addFinding(kind meta.DamageKind, state meta.DamageState, file, reason string) {
	d.damage.Add(meta.Damage{
		Kind: kind, State: state, File: file, Event: d.damage.Now().UnixNano(), Reason: reason,
	})
}

// release closes what Open has opened so far.
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
		err = d.segments.UncertainRemoval(root)
	}
	return e, ok && err == nil, err
}

// GetAll implements the backend of a store.
func (d *Backend) GetAll(roots []b3.Root) ([]meta.Entry, error) {
	es, err := d.index.GetAll(roots)
	for i := range es {
		if err == nil && !es[i].Root.IsZero() {
			err = d.segments.UncertainRemoval(es[i].Root)
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
	return page, d.index.FillUses(page[first:])
}

// Flush implements the backend of a store.
func (d *Backend) Flush(ctx context.Context) error {
	if err := d.segments.Flush(ctx); err != nil {
		return err
	}
	return d.Files.Flush(ctx)
}

// RemoveAll implements the backend of a store. It ignores the context: the caller
// must know whether an object is gone before it may be put again.
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
	if d.disk.readOnly != nil {
		return nil //nolint:nilerr // a use matters only to evictions, and a read-only store has none
	}
	return d.segments.Touch(used, age)
}

// UsedAt implements the backend of a store.
func (d *Backend) UsedAt(e meta.Entry) (meta.Second, error) { return d.index.LastUse(e) }

// Totals implements the backend of a store.
func (d *Backend) Totals() *meta.Totals { return &d.count }

// Usage implements the backend of a store.
func (d *Backend) Usage() meta.Usage {
	log := d.segments.Usage()
	u := meta.Usage{
		Segments: log.Segments, Spares: log.Spares, SpareBytes: log.SpareBytes,
		SegmentBytes: log.Bytes, SegmentLiveBytes: log.LiveBytes,
		LargeBytes: d.count.LargeBytes.Load(), OutboardBytes: d.count.OutboardBytes.Load(),
		IndexBytes: d.index.DiskBytes(), BallastBytes: d.disk.ballast.Bytes(),
	}
	u.Compactions, u.CompactedBytes, u.ReclaimedBytes = d.compact.Stats()
	u.QuarantineFiles, u.QuarantineBytes = d.quarantine.Held()
	u.FreeBytes, _ = d.disk.free()
	return u
}

// Failure implements the backend of a store.
func (d *Backend) Failure() error {
	if d.disk.readOnly != nil {
		return d.disk.readOnly
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

// Free returns the free bytes of the disk, including the ballast, and the bytes that
// the compactor is about to free. known is false if the file system cannot tell.
func (d *Backend) Free() (free, coming int64, known bool) {
	if free, known = d.disk.free(); !known {
		return -1, 0, false
	}
	return free, d.compact.PendingBytes(), true
}

// ScrubState implements scrub.StateStore.
func (d *Backend) ScrubState() ([]byte, error) {
	v, _, err := d.index.Scrub.Get()
	return v, err
}

// SetScrubState implements scrub.StateStore.
func (d *Backend) SetScrubState(v []byte) error { return d.index.Scrub.Set(v, false) }

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
