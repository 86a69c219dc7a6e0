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
	"allium/store/bucket/s3"
	"allium/store/disk/fsys"
	"allium/store/meta"
)

// Waits for a bucket that cannot be reached.
const (
	joinWait = 5 * time.Second  // longest time of one attempt, at the start and later
	minProbe = time.Second      // pause before the first later attempt; each pause doubles
	maxProbe = 30 * time.Second // longest pause
)

// fileNode is the file in the store's directory that contains the node's name in the bucket.
const fileNode = "NODE"

// NodeOf returns the node's name that is saved in a store's directory, or "" when none is.
// A file that contains no valid name is corrupt.
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
	if !ok || !s3.ValidNode(node) {
		return "", status.Errorf(status.Corrupt, "%s does not contain the name of a node: %.80q; "+
			"restore it, or delete it and set store.s3.node", f.PathJoin(dir, fileNode), p)
	}
	return node, nil
}

// chooseNode sets the node's name: the one in the directory, else the configured one, else a
// random one. It returns conflict when the directory and the configuration differ.
func (c *Cloud) chooseNode() error {
	saved, err := NodeOf(c.fs, c.dir)
	switch {
	case err != nil:
		return err
	case saved != "" && c.cfg.Node != "" && saved != c.cfg.Node:
		return status.Errorf(status.Conflict, "%s is the store of node %q in the bucket, and store.s3.node is %q; "+
			"correct the setting, or use another directory", c.dir, saved, c.cfg.Node)
	case saved != "":
		c.node = saved
	case c.cfg.Node != "":
		c.node = c.cfg.Node
	default:
		c.node = strings.ToLower(rand.Text())
	}
	c.isNew = saved == ""
	return nil
}

// enter registers the node in the bucket and saves a new name in the directory.
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

// checkVacant finds out whether the directory had segments before this start.
func (c *Cloud) checkVacant() error {
	names, err := c.fs.List(c.fs.PathJoin(c.dir, fsys.DirSegments))
	if err != nil {
		return meta.ReadError(err)
	}
	shipped, err := c.index.AllShipped()
	c.vacant = c.isNew || len(names) == 0 && len(shipped) == 0
	return err
}

// joinAtStart joins the bucket when the store opens. A node that registered before starts
// also when the bucket cannot be reached within joinWait: it serves local objects. The first
// start of a directory needs the bucket, so that wrong settings are reported at once.
func (c *Cloud) joinAtStart(ctx context.Context) error {
	if c.isNew {
		return c.join(ctx)
	}
	limited, cancel := context.WithTimeout(ctx, joinWait)
	defer cancel()
	err := c.join(limited)
	if err == nil || ctx.Err() != nil || !s3.Away(err) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	c.meters.Lost(err)
	c.log.Warn("cannot reach the bucket; the node serves local objects and keeps trying",
		"err", err)
	return nil
}

// join checks that the node may use the bucket, and registers it.
func (c *Cloud) join(ctx context.Context) error {
	if c.vacant {
		if err := c.checkNameUnused(ctx); err != nil {
			return err
		}
	}
	return c.enter(ctx)
}

// watch probes the bucket while it is away, until ctx is done. When the node turns out not
// to be allowed to use the bucket, watch sends the reason to refused and returns.
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

// probe tries once to reach the bucket, and to join it if the node has not yet. It returns
// nil while the bucket is away. An error says that the node may not use the bucket.
func (c *Cloud) probe(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, joinWait)
	defer cancel()
	if c.joined.Load() {
		_, _ = c.bucket.Stat(limited, nodesPrefix+c.node) // the meters record the outcome
		return nil
	}
	err := c.join(limited)
	switch {
	case err == nil:
		c.log.Info("the bucket can be reached again")
		c.signalWork()
	case limited.Err() != nil, s3.Away(err), status.Of(err) == status.Busy:
		c.meters.Lost(err)
		return nil
	}
	return err
}

// checkNameUnused returns conflict when the bucket has segments under the node's name. A
// store without segments would overwrite them.
func (c *Cloud) checkNameUnused(ctx context.Context) error {
	for item, err := range c.bucket.List(ctx, c.segmentPrefix()) {
		if err != nil {
			return err
		}
		return status.Errorf(status.Conflict, "the bucket has the store of node %q (%s) and %s is empty; "+
			"run `allium store rebuild`, or choose another store.s3.node", c.node, item.Key, c.dir)
	}
	return nil
}

// register writes the node's mark into the bucket. It returns conflict unless the node is
// the only one or all nodes share the bucket: a node that does not share deletes objects
// that other nodes may need.
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
	// Write the mark before reading the others', so that of two nodes that start at
	// the same time at least one sees the other.
	if err := c.bucket.Put(ctx, mine, strings.NewReader(mark), int64(len(mark)), false); err != nil {
		return err
	}
	if err = c.checkOthers(ctx, mine); err != nil && isNew {
		if e := c.bucket.Delete(ctx, mine); e != nil {
			c.log.Warn("cannot delete the mark of a node that did not start from the bucket", "key", mine, "err", e)
		}
	}
	return err
}

// checkOthers returns conflict when the bucket has the mark of another node, unless that node
// and this one share the bucket.
func (c *Cloud) checkOthers(ctx context.Context, mine string) error {
	for item, err := range c.bucket.List(ctx, nodesPrefix) {
		switch {
		case err != nil:
			return err
		case item.Key == mine, c.cfg.Shared && item.Size == int64(len(markShare)):
			continue
		}
		other := strings.TrimPrefix(item.Key, nodesPrefix)
		return status.Errorf(status.Conflict, "node %q uses the bucket too, and not both nodes share it; "+
			"set store.s3.shared on every node of the bucket, or, if this node replaces that one, "+
			"set store.s3.node = %q and run `allium store rebuild`", other, other)
	}
	return nil
}
