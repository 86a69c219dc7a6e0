package cloud

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/protocols/status"
	"allium/store/bucket"
	"allium/store/fsys"
	"allium/store/meta"
)

// Times of looking for a bucket that is away.
const (
	joinWait = 5 * time.Second // at the start, and of each later look
	minProbe = time.Second     // before the first look; doubles
	maxProbe = 30 * time.Second
)

// fileNode is the file with the node's name in the bucket.
const fileNode = "NODE"

// NodeOf returns the name that is kept in the directory of a store, "" for none.
func NodeOf(f vfs.FS, dir string) (string, error) {
	p, err := fsys.ReadFile(f, f.PathJoin(dir, fileNode))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", meta.ReadError(err)
	}
	line, ok := bytes.CutPrefix(p, []byte(nodeHead))
	node := strings.TrimSuffix(string(line), "\n")
	if !ok || !bucket.ValidNode(node) {
		return "", status.Errorf(status.Corrupt, "%s does not hold the name of a node: %.80q; restore it, or delete it and set store.s3.node", f.PathJoin(dir, fileNode), p)
	}
	return node, nil
}

// name is the configured name, the one of the directory, or a new one.
func (c *Cloud) name() error {
	kept, err := NodeOf(c.fs, c.dir)
	switch {
	case err != nil:
		return err
	case kept != "" && c.cfg.Node != "" && kept != c.cfg.Node:
		return status.Errorf(status.Conflict, "%s is the store of node %q in the bucket, and store.s3.node is %q; correct the setting, or use another directory", c.dir, kept, c.cfg.Node)
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
func (c *Cloud) enter(ctx context.Context) error {
	if err := c.register(ctx); err != nil {
		return err
	}
	c.joined.Store(true)
	if !c.isNew {
		return nil
	}
	return fsys.ReplaceFile(c.fs, c.dir, fileNode, []byte(nodeHead+c.node+"\n"))
}

// look finds out whether the directory had segments before this start.
func (c *Cloud) look() error {
	names, err := c.fs.List(c.fs.PathJoin(c.dir, fsys.DirSegments))
	if err != nil {
		return meta.ReadError(err)
	}
	there, err := c.index.AllShipped()
	c.vacant = c.isNew || len(names) == 0 && len(there) == 0
	return err
}

// begin joins the bucket at the start. A node that was in it before starts
// without it when it is away: what is here can be served. The first start of a
// directory needs it, so that what is wrong with the settings is told at once.
func (c *Cloud) begin(ctx context.Context) error {
	if c.isNew {
		return c.join(ctx)
	}
	limited, cancel := context.WithTimeout(ctx, joinWait)
	defer cancel()
	err := c.join(limited)
	if err == nil || ctx.Err() != nil || !bucket.Away(err) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	c.meters.Lost(err)
	c.log.Warn("the bucket cannot be reached; the node starts with what is here, and goes on when the bucket is back", "err", err)
	return nil
}

// join checks that we may use the bucket, and enters us.
func (c *Cloud) join(ctx context.Context) error {
	if c.vacant {
		if err := c.unused(ctx); err != nil {
			return err
		}
	}
	return c.enter(ctx)
}

// watch looks for the bucket while it is away, until ctx is done. Where it turns
// out that we may not use it, refused gets the reason.
func (c *Cloud) watch(ctx context.Context) {
	pause := minProbe
	for {
		if c.joined.Load() && c.meters.Away() == nil {
			pause = minProbe
			select {
			case <-c.meters.Trouble():
				continue
			case <-ctx.Done():
				return
			}
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return
		}
		pause = min(2*pause, maxProbe)
		if err := c.probe(ctx); err != nil {
			c.refused <- err // the only one
			return
		}
	}
}

// probe looks once whether the bucket is back. Its error says that we may not
// use it.
func (c *Cloud) probe(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, joinWait)
	defer cancel()
	if c.joined.Load() {
		_, _ = c.bucket.Stat(limited, nodesPrefix+c.node) // the meters take the answer
		return nil
	}
	err := c.join(limited)
	switch {
	case err == nil:
		c.log.Info("the bucket is back")
		c.wake()
	case limited.Err() != nil, bucket.Away(err), status.Of(err) == status.Busy:
		c.meters.Lost(err)
		return nil
	}
	return err
}

// unused refuses a name that has segments in the bucket for a store that has
// none: they would be overwritten.
func (c *Cloud) unused(ctx context.Context) error {
	for item, err := range c.bucket.List(ctx, c.segmentPrefix()) {
		if err != nil {
			return err
		}
		return status.Errorf(status.Conflict, "the bucket holds the store of node %q (%s) and %s is empty; run `allium store rebuild`, or choose another store.s3.node", c.node, item.Key, c.dir)
	}
	return nil
}

// register tells the other nodes of the bucket about this one. All share, or
// there is one: otherwise a node would delete what others rely on.
func (c *Cloud) register(ctx context.Context) error {
	mine, mark := nodesPrefix+c.node, markOwn
	if c.cfg.Shared {
		mark = markShare
	}
	_, err := c.bucket.Stat(ctx, mine)
	if err != nil && status.Of(err) != status.NotFound {
		return err
	}
	isNew := err != nil
	// First enter, then look, so that of two nodes that start at once one sees
	// the other.
	if err := c.bucket.Put(ctx, mine, strings.NewReader(mark), int64(len(mark)), false); err != nil {
		return err
	}
	if err = c.alone(ctx, mine); err != nil && isNew {
		if e := c.bucket.Delete(ctx, mine); e != nil {
			c.log.Warn("the bucket keeps the mark of a node that did not start", "key", mine, "err", e)
		}
	}
	return err
}

func (c *Cloud) alone(ctx context.Context, mine string) error {
	for item, err := range c.bucket.List(ctx, nodesPrefix) {
		switch {
		case err != nil:
			return err
		case item.Key == mine, c.cfg.Shared && item.Size == int64(len(markShare)):
			continue
		}
		other := strings.TrimPrefix(item.Key, nodesPrefix)
		return status.Errorf(status.Conflict, "node %q uses the bucket too, and not both share it; set store.s3.shared on every node of the bucket, or, if this node takes over from that one, set store.s3.node = %q and run `allium store rebuild`", other, other)
	}
	return nil
}
