package disk

import (
	"context"
	"errors"
	"strings"
	"time"

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

// look finds out whether the directory had segments before this start.
func (c *cloud) look(d *Backend) error {
	names, err := d.fs.List(d.path(fsys.DirSegments))
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
func (c *cloud) begin(ctx context.Context, d *Backend) error {
	if c.isNew {
		return c.join(ctx, d)
	}
	limited, cancel := context.WithTimeout(ctx, joinWait)
	defer cancel()
	err := c.join(limited, d)
	if err == nil || ctx.Err() != nil || !bucket.Away(err) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	c.meters.Lost(err)
	c.log.Warn("the bucket cannot be reached; the node starts with what is here, and goes on when the bucket is back", "err", err)
	return nil
}

// join checks that we may use the bucket, and enters us.
func (c *cloud) join(ctx context.Context, d *Backend) error {
	if c.vacant {
		if err := c.unused(ctx, d); err != nil {
			return err
		}
	}
	return c.enter(ctx, d)
}

// here refuses to use the bucket before it was joined.
func (c *cloud) here() error {
	if c.joined.Load() {
		return nil
	}
	if err := c.meters.Away(); err != nil {
		return status.Errorf(status.TransportDown, "the bucket was not reached since the node started: %w; it is tried again, and all goes on when it is back", err)
	}
	return status.Errorf(status.TransportDown, "the bucket was not reached since the node started; it is being asked, try again")
}

// Away implements the backend of a store.
func (d *Backend) Away() error {
	if d.cloud == nil {
		return nil
	}
	if err := d.cloud.here(); err != nil {
		return err
	}
	return d.cloud.meters.Away()
}

// Refused implements the backend of a store.
func (d *Backend) Refused() <-chan error {
	if d.cloud == nil {
		return nil
	}
	return d.cloud.refused
}

// watch looks for the bucket while it is away, until ctx is done. Where it turns
// out that we may not use it, refused gets the reason.
func (c *cloud) watch(ctx context.Context, d *Backend) {
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
		if err := c.probe(ctx, d); err != nil {
			c.refused <- err // the only one
			return
		}
	}
}

// probe looks once whether the bucket is back. Its error says that we may not
// use it.
func (c *cloud) probe(ctx context.Context, d *Backend) error {
	limited, cancel := context.WithTimeout(ctx, joinWait)
	defer cancel()
	if c.joined.Load() {
		_, _ = c.bucket.Stat(limited, cloudNodes+c.node) // the meters take the answer
		return nil
	}
	err := c.join(limited, d)
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
func (c *cloud) unused(ctx context.Context, d *Backend) error {
	for item, err := range c.bucket.List(ctx, c.segmentPrefix()) {
		if err != nil {
			return err
		}
		return status.Errorf(status.Conflict, "the bucket holds the store of node %q (%s) and %s is empty; run `allium store rebuild`, or choose another store.s3.node", c.node, item.Key, d.cfg.Dir)
	}
	return nil
}

// register tells the other nodes of the bucket about this one. All share, or
// there is one: otherwise a node would delete what others rely on.
func (c *cloud) register(ctx context.Context) error {
	mine, mark := cloudNodes+c.node, markOwn
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

func (c *cloud) alone(ctx context.Context, mine string) error {
	for item, err := range c.bucket.List(ctx, cloudNodes) {
		switch {
		case err != nil:
			return err
		case item.Key == mine, c.cfg.Shared && item.Size == int64(len(markShare)):
			continue
		}
		other := strings.TrimPrefix(item.Key, cloudNodes)
		return status.Errorf(status.Conflict, "node %q uses the bucket too, and not both share it; set store.s3.shared on every node of the bucket, or, if this node takes over from that one, set store.s3.node = %q and run `allium store rebuild`", other, other)
	}
	return nil
}
