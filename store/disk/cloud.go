package disk

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/bucket"
	"allium/store/damage"
	"allium/store/fsys"
	"allium/store/index"
	"allium/store/meta"
	"allium/store/segment"
)

// cloud is what the s3 backend is beside the embedded one: large objects are in
// the bucket, and here only their outboards; segments are here and copied to
// the bucket. The index, which stays here, says what there is. docs/S3.md has
// the names in the bucket.
//
// One goroutine ships segments and deletes what was removed. Uploads run in the
// puts that wait for them.
type cloud struct {
	cfg    bucket.Config
	meters *bucket.Meters
	log    *slog.Logger
	node   string

	// Set by open.
	ctx    context.Context // of reads; ends with the backend
	stop   context.CancelFunc
	bucket bucket.Bucket
	index  *index.Index
	damage *damage.List
	isNew  bool // the directory does not have the name yet
	vacant bool // the directory had no segments

	joined   atomic.Bool     // we may use the bucket: it has us, and no one who must not
	refused  chan error      // one at most: why we may not
	kick     chan struct{}   // tells the goroutine to look
	unproved map[uint64]bool // segments that must not replace their parts; of the goroutine that ships, and at most as many as there are segments

	pending atomic.Int64 // removed objects that the bucket still has

	mu     sync.Mutex
	claims map[b3.Root]chan struct{} // objects being put or deleted in the bucket; closed when over
}

func newCloud(cfg bucket.Config, meters *bucket.Meters, log *slog.Logger) *cloud {
	return &cloud{cfg: cfg, meters: meters, log: log, kick: make(chan struct{}, 1), refused: make(chan error, 1), claims: map[b3.Root]chan struct{}{}, unproved: map[uint64]bool{}}
}

// lastUpload is how long a store that closes waits for the bucket.
const lastUpload = 3 * time.Second

// Names in the bucket.
const (
	cloudObjects   = "o/" // o/<2 hex>/<64 hex>: a large object
	cloudOutboards = "t/" // t/<2 hex>/<64 hex>: its outboard
	cloudSegments  = "s/" // s/<node>/<16 hex>.seg
	cloudNodes     = "n/" // n/<node>: who uses the bucket, and how
)

// fileNode is the file with the node's name in the bucket.
const fileNode = "NODE"

const (
	nodeHead  = "allium node\n"
	markOwn   = "allium bucket 1\nexclusive\n"
	markShare = "allium bucket 1\nshared\n"
)

func cloudKey(kind string, root b3.Root) string {
	h := root.Hex()
	return kind + h[:2] + "/" + h
}

// parseCloudKey is the inverse of cloudKey.
func parseCloudKey(kind, key string) (b3.Root, bool) {
	root, err := b3.Parse("b3:" + path.Base(key))
	return root, err == nil && cloudKey(kind, root) == key
}

// open finds out who we are in the bucket and enters us there, unless the
// bucket is away: then watch does.
func (c *cloud) open(ctx context.Context, d *Backend) error {
	err := c.dial(ctx, d)
	if err == nil {
		err = c.name(d)
	}
	if err == nil {
		err = c.look(d)
	}
	if err == nil {
		err = c.countRemoved()
	}
	if err == nil {
		err = c.begin(ctx, d)
	}
	return err
}

// dial makes the client. It sends nothing.
func (c *cloud) dial(ctx context.Context, d *Backend) (err error) {
	c.ctx, c.stop = context.WithCancel(context.WithoutCancel(ctx))
	c.index, c.damage = d.index, d.damage
	c.bucket, err = bucket.Open(c.cfg, c.meters)
	return err
}

func (c *cloud) Close() {
	if c.stop != nil {
		c.stop()
	}
	if c.bucket != nil {
		c.bucket.Close()
	}
}

// name is the configured name, the one of the directory, or a new one.
func (c *cloud) name(d *Backend) error {
	kept, err := readNode(d)
	switch {
	case err != nil:
		return err
	case kept != "" && c.cfg.Node != "" && kept != c.cfg.Node:
		return status.Errorf(status.Conflict, "%s is the store of node %q in the bucket, and store.s3.node is %q; correct the setting, or use another directory", d.cfg.Dir, kept, c.cfg.Node)
	case kept != "":
		c.node = kept
	case c.cfg.Node != "":
		c.node = c.cfg.Node
	default:
		c.node = strings.ToLower(rand.Text())
	}
	c.isNew = kept == ""
	return nil
}

// enter registers the node in the bucket, and keeps its name.
func (c *cloud) enter(ctx context.Context, d *Backend) error {
	if err := c.register(ctx); err != nil {
		return err
	}
	c.joined.Store(true)
	if !c.isNew {
		return nil
	}
	return fsys.ReplaceFile(d.fs, d.cfg.Dir, fileNode, []byte(nodeHead+c.node+"\n"))
}

// readNode returns the name that is kept in the directory, "" for none.
func readNode(d *Backend) (string, error) {
	p, err := fsys.ReadFile(d.fs, d.path(fileNode))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", meta.ReadError(err)
	}
	line, ok := bytes.CutPrefix(p, []byte(nodeHead))
	node := strings.TrimSuffix(string(line), "\n")
	if !ok || !bucket.ValidNode(node) {
		return "", status.Errorf(status.Corrupt, "%s does not hold the name of a node: %.80q; restore it, or delete it and set store.s3.node", d.path(fileNode), p)
	}
	return node, nil
}

func (c *cloud) wake() {
	select {
	case c.kick <- struct{}{}:
	default:
	}
}

// serve deletes and ships until ctx is done, when it is kicked, and each
// ShipAfter. What fails is tried again the next time.
func (c *cloud) serve(ctx context.Context, s *segment.Log) {
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
		c.shipAll(ctx, s)
		again.Reset(c.cfg.ShipAfter)
	}
}

// shipAll is ship, and tells how it went.
func (c *cloud) shipAll(ctx context.Context, s *segment.Log) {
	err := c.ship(ctx, s)
	if err == nil {
		c.meters.Shipped()
		return
	}
	if ctx.Err() == nil {
		c.log.Warn("small objects are on this machine alone for now", "err", err)
	}
}

// claim waits until nobody else puts or deletes root in the bucket.
func (c *cloud) claim(ctx context.Context, root b3.Root) (release func(), err error) {
	for {
		busy, release := c.tryClaim(root)
		if release != nil {
			return release, nil
		}
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// tryClaim claims root, or returns what to wait for.
func (c *cloud) tryClaim(root b3.Root) (busy <-chan struct{}, release func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if busy := c.claims[root]; busy != nil {
		return busy, nil
	}
	over := make(chan struct{})
	c.claims[root] = over
	return nil, func() {
		c.mu.Lock()
		delete(c.claims, root)
		c.mu.Unlock()
		close(over)
	}
}

// notEmbedded refuses a directory whose objects are in a bucket.
func (d *Backend) notEmbedded() error {
	node, err := readNode(d)
	if err == nil && node != "" {
		return status.Errorf(status.Conflict, "%s is the store of node %q in a bucket; set store.backend = %q and store.s3, or use another directory", d.cfg.Dir, node, "s3")
	}
	return err
}

func (c *cloud) segmentPrefix() string { return fmt.Sprintf("%s%s/", cloudSegments, c.node) }
