package cloud

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/protocols/status"
	"allium/store/bucket/s3"
	"allium/store/disk/damage"
	"allium/store/disk/tables"
	"allium/store/meta"
)

// Log is the store's log, whose segments are copied to the bucket.
type Log interface {
	// List returns the numbers of the segments on disk, ascending.
	List() ([]uint64, error)
	// Segments returns the segments that belong to the log, each with the offset at
	// which its last record ends, or 0 when that is unknown.
	Segments() map[uint64]int64
	// OpenFile opens the file of a segment.
	OpenFile(num uint64) (vfs.File, error)
	// Name returns the path of a segment's file, relative to the store's directory.
	Name(num uint64) string
	// ReportLoss records that a part of a segment is damaged or missing.
	ReportLoss(num uint64, d meta.Damage)
}

// Options are the bucket and the parts of the store that a Cloud uses.
type Options struct {
	Bucket s3.Config
	Meters *s3.Meters
	Log    *slog.Logger

	FS     vfs.FS
	Dir    string // the store's directory
	Damage *damage.List
	Space  func(need int64) error // returns no_space when need bytes would nearly fill the disk
}

// Cloud is one node's use of a bucket. Serve runs one goroutine that ships segments and
// deletes removed objects, and one that looks for the bucket while it is away. Large
// objects are uploaded by the puts that wait for them.
type Cloud struct {
	*conn
	*objects
	*segments

	isNew   bool       // the directory has no file NODE yet
	vacant  bool       // the directory is new, or had no segments and none were shipped from it
	refused chan error // why the node may not use the bucket; gets at most one error
}

// conn is the bucket's client and the node's registration in the bucket.
type conn struct {
	cfg    s3.Config
	meters *s3.Meters
	log    *slog.Logger
	fs     vfs.FS
	dir    string
	damage *damage.List
	space  func(need int64) error
	node   string // the node's name in the bucket

	dialed

	joined     atomic.Bool   // the node is registered and may use the bucket
	workSignal chan struct{} // holds one token when work should run now
}

// dialed holds what dial sets.
type dialed struct {
	ctx    context.Context // of reads of objects; canceled by Close
	stop   context.CancelFunc
	bucket s3.Bucket
	index  *tables.Index
}

// New returns a Cloud. Call Open or Rejoin before any other method.
func New(o Options) *Cloud {
	c := &conn{
		cfg: o.Bucket, meters: o.Meters, log: o.Log, fs: o.FS, dir: o.Dir, damage: o.Damage, space: o.Space,
		workSignal: make(chan struct{}, 1), // bound: one token
	}
	return &Cloud{conn: c, objects: newObjects(c), segments: newSegments(c), refused: make(chan error, 1)}
}

// Open determines the node's name and registers it in the bucket. When a node that
// registered before cannot reach the bucket, Open succeeds and Serve registers it later.
func (c *Cloud) Open(ctx context.Context, x *tables.Index) error {
	err := c.dial(ctx, x)
	if err == nil {
		err = c.chooseNode()
	}
	if err == nil {
		err = c.checkVacant()
	}
	if err == nil {
		err = c.countRemovals()
	}
	if err == nil {
		err = c.joinAtStart(ctx)
	}
	return err
}

// dial creates the client. It sends nothing.
func (c *conn) dial(ctx context.Context, x *tables.Index) (err error) {
	c.ctx, c.stop = context.WithCancel(context.WithoutCancel(ctx))
	c.index = x
	c.bucket, err = s3.Open(c.cfg, c.meters)
	return err
}

// Reopen replaces the index that Open was given.
func (c *conn) Reopen(x *tables.Index) { c.index = x }

// Close cancels reads of objects and closes the client.
func (c *conn) Close() {
	if c.stop != nil {
		c.stop()
	}
	if c.bucket != nil {
		c.bucket.Close()
	}
}

// checkJoined returns transport_down until the node has joined the bucket.
func (c *conn) checkJoined() error {
	if c.joined.Load() {
		return nil
	}
	if err := c.meters.Away(); err != nil {
		return status.Errorf(status.TransportDown, "the bucket has not been reached since the node started: %w; "+
			"the node keeps trying and continues when it reaches the bucket", err)
	}
	return status.Errorf(status.TransportDown,
		"the bucket has not been reached since the node started; the node is trying, try again")
}

// Away returns why the bucket cannot be used at present, or nil when it can.
func (c *conn) Away() error {
	if err := c.checkJoined(); err != nil {
		return err
	}
	return c.meters.Away()
}

// Refused returns a channel that receives an error when Serve learns that the node may not
// use the bucket. The channel gets at most one error and is never closed.
func (c *Cloud) Refused() <-chan error { return c.refused }

// signalWork makes work run now. It does not block.
func (c *conn) signalWork() {
	select {
	case c.workSignal <- struct{}{}:
	default:
	}
}

// Serve deletes removed objects, ships segments of log, and looks for the bucket while it
// is away. It returns when ctx is done.
func (c *Cloud) Serve(ctx context.Context, log Log) {
	var both sync.WaitGroup
	both.Go(func() { c.work(ctx, log) })
	both.Go(func() { c.watch(ctx) })
	both.Wait()
}

// work deletes removed objects and ships segments at once, at each signal, and ShipAfter
// after the last run. The next run repeats what failed.
func (c *Cloud) work(ctx context.Context, log Log) {
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-c.workSignal:
		case <-next.C:
		case <-ctx.Done():
			return
		}
		if c.joined.Load() {
			c.deleteRemoved(ctx)
		}
		c.Ship(ctx, log)
		next.Reset(c.cfg.ShipAfter)
	}
}
