package cloud

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/protocols/status"
	"allium/store/bucket"
	"allium/store/damage"
	"allium/store/index"
	"allium/store/meta"
)

// Log is the log of which segments are copied to the bucket.
type Log interface {
	// List returns the numbers of the segments on disk, ascending.
	List() ([]uint64, error)
	// Segments returns the segments that the log consists of, with the end of the
	// last record of each where that is known.
	Segments() map[uint64]int64
	// OpenFile opens the file of a segment.
	OpenFile(num uint64) (vfs.File, error)
	// Name is a segment's file below the store's directory.
	Name(num uint64) string
	// Lost notes that something of a segment is gone.
	Lost(num uint64, d meta.Damage)
}

// Options say what the bucket is for, and what of the store it works on.
type Options struct {
	Bucket bucket.Config
	Meters *bucket.Meters
	Log    *slog.Logger

	FS     vfs.FS
	Dir    string // of the store
	Damage *damage.List
	Space  func(need int64) error // no_space when the disk is about to be full
}

// Cloud is one node's use of a bucket. One goroutine ships segments and deletes
// what was removed. Uploads run in the puts that wait for them.
type Cloud struct {
	*conn
	*objects
	*segments

	isNew   bool       // the directory does not have the name yet
	vacant  bool       // the directory had no segments
	refused chan error // one at most: why we may not use the bucket
}

// conn is the bucket, and what the node is in it.
type conn struct {
	cfg    bucket.Config
	meters *bucket.Meters
	log    *slog.Logger
	fs     vfs.FS
	dir    string
	damage *damage.List
	space  func(need int64) error
	node   string

	// Set by Open.
	ctx    context.Context // of reads; ends with Close
	stop   context.CancelFunc
	bucket bucket.Bucket
	index  *index.Index

	joined atomic.Bool   // we may use the bucket: it has us, and no one who must not
	kick   chan struct{} // tells the goroutine to look
}

// New returns the use of a bucket, which Open or Rejoin begins.
func New(o Options) *Cloud {
	c := &conn{
		cfg: o.Bucket, meters: o.Meters, log: o.Log, fs: o.FS, dir: o.Dir, damage: o.Damage, space: o.Space,
		kick: make(chan struct{}, 1), // bound: one kick
	}
	return &Cloud{conn: c, objects: newObjects(c), segments: newSegments(c), refused: make(chan error, 1)}
}

// Open finds out who we are in the bucket and enters us there, unless the
// bucket is away: then Serve does.
func (c *Cloud) Open(ctx context.Context, x *index.Index) error {
	err := c.dial(ctx, x)
	if err == nil {
		err = c.name()
	}
	if err == nil {
		err = c.look()
	}
	if err == nil {
		err = c.countRemoved()
	}
	if err == nil {
		err = c.begin(ctx)
	}
	return err
}

// dial makes the client. It sends nothing.
func (c *conn) dial(ctx context.Context, x *index.Index) (err error) {
	c.ctx, c.stop = context.WithCancel(context.WithoutCancel(ctx))
	c.index = x
	c.bucket, err = bucket.Open(c.cfg, c.meters)
	return err
}

// Reopen goes on with an index that replaces the one of Open.
func (c *conn) Reopen(x *index.Index) { c.index = x }

// Close ends reads and gives the client up.
func (c *conn) Close() {
	if c.stop != nil {
		c.stop()
	}
	if c.bucket != nil {
		c.bucket.Close()
	}
}

// here refuses to use the bucket before it was joined.
func (c *conn) here() error {
	if c.joined.Load() {
		return nil
	}
	if err := c.meters.Away(); err != nil {
		return status.Errorf(status.TransportDown, "the bucket was not reached since the node started: %w; it is tried again, and all goes on when it is back", err)
	}
	return status.Errorf(status.TransportDown, "the bucket was not reached since the node started; it is being asked, try again")
}

// Away is why the bucket cannot be used for now, nil when it can.
func (c *conn) Away() error {
	if err := c.here(); err != nil {
		return err
	}
	return c.meters.Away()
}

// Refused has an error when it turns out that the node may not use the bucket.
func (c *Cloud) Refused() <-chan error { return c.refused }

func (c *conn) wake() {
	select {
	case c.kick <- struct{}{}:
	default:
	}
}

// Serve looks for the bucket while it is away, deletes what was removed and ships
// log, until ctx is done.
func (c *Cloud) Serve(ctx context.Context, log Log) {
	var both sync.WaitGroup
	both.Go(func() { c.work(ctx, log) })
	both.Go(func() { c.watch(ctx) })
	both.Wait()
}

// work deletes and ships when it is kicked, and each ShipAfter. What fails is
// tried again the next time.
func (c *Cloud) work(ctx context.Context, log Log) {
	again := time.NewTimer(0)
	defer again.Stop()
	for {
		select {
		case <-c.kick:
		case <-again.C:
		case <-ctx.Done():
			return
		}
		if c.joined.Load() {
			c.deleteRemoved(ctx)
		}
		c.Ship(ctx, log)
		again.Reset(c.cfg.ShipAfter)
	}
}
