package disk

import (
	"context"
	"errors"
	"io"

	"golang.org/x/sync/errgroup"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/bucket"
	"allium/store/index"
	"allium/store/meta"
)

// Put puts a large object, which is verified, and its outboard into the bucket.
// What is there under its name, put by another node or before, stays, unless
// replace says that it is damaged, or its size is wrong.
func (c *cloud) Put(ctx context.Context, root b3.Root, size int64, p meta.Pair, replace bool) error {
	if err := c.here(); err != nil {
		return err
	}
	release, err := c.claim(ctx, root)
	if err != nil {
		return err
	}
	defer release()
	if err := c.keep(root); err != nil {
		return err
	}
	outboard := b3.OutboardSize(size)
	if err := c.putHalf(ctx, cloudKey(cloudOutboards, root), p.Outboard, outboard, replace); err != nil {
		return err
	}
	return c.putHalf(ctx, cloudKey(cloudObjects, root), p.Data, size, replace)
}

// Open returns a large object's bytes. It asks the bucket when it is read.
func (c *cloud) Open(root b3.Root, size int64) meta.File {
	return &cloudFile{c: c, key: cloudKey(cloudObjects, root), size: size}
}

// OpenOutboard returns the outboard of an object of size bytes.
func (c *cloud) OpenOutboard(root b3.Root, size int64) meta.File {
	return &cloudFile{c: c, key: cloudKey(cloudOutboards, root), size: b3.OutboardSize(size)}
}

// Lacks reports whether the bucket says that it does not have root.
func (c *cloud) Lacks(ctx context.Context, root b3.Root) bool {
	if c.here() != nil {
		return false
	}
	_, err := c.bucket.Stat(ctx, cloudKey(cloudObjects, root))
	return status.Of(err) == status.NotFound
}

// keep takes root off the list of what is to be deleted. The caller has claimed
// it.
func (c *cloud) keep(root b3.Root) error {
	if ok, err := c.index.IsRemoved(root); !ok {
		return err
	}
	c.pending.Add(-1)
	return c.index.DropRemoved(root)
}

func (c *cloud) putHalf(ctx context.Context, key string, r io.ReaderAt, size int64, replace bool) error {
	if !replace {
		err := c.bucket.Put(ctx, key, r, size, true)
		if !errors.Is(err, bucket.ErrExists) {
			return err
		}
		switch there, err := c.bucket.Stat(ctx, key); {
		case err != nil && status.Of(err) != status.NotFound:
			return err
		case err == nil && there == size:
			return nil
		}
	}
	return c.bucket.Put(ctx, key, r, size, false)
}

// Remove adds to b that root, a large object, is to be deleted in the bucket.
// Where others share the bucket nothing is.
func (c *cloud) Remove(b *index.Batch, root b3.Root) error {
	if c.cfg.Shared {
		return nil
	}
	return b.SetRemoved(root)
}

// removed is told that so many large objects were removed.
func (c *cloud) removed(large int) {
	if c.cfg.Shared {
		return
	}
	c.pending.Add(int64(large))
	c.wake()
}

// deletesOnce is how many objects are deleted in the bucket at once.
const deletesOnce = 8

// deleteRemoved deletes what was removed here. What fails stays on the list
// and is tried again.
func (c *cloud) deleteRemoved(ctx context.Context) {
	for ctx.Err() == nil {
		page, err := c.index.Removed(removedPage)
		if err == nil && len(page) > 0 {
			err = c.deletePage(ctx, page)
		}
		if err != nil && ctx.Err() == nil {
			c.log.Warn("removed objects stay in the bucket for now", "objects", c.pending.Load(), "err", err)
		}
		if err != nil || len(page) < removedPage {
			return
		}
	}
}

const removedPage = 256

func (c *cloud) deletePage(ctx context.Context, page []b3.Root) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(deletesOnce)
	for _, root := range page {
		g.Go(func() error { return c.deleteObject(ctx, root) })
	}
	return g.Wait()
}

// deleteObject deletes root in the bucket, unless it is being put again.
func (c *cloud) deleteObject(ctx context.Context, root b3.Root) error {
	release, err := c.claim(ctx, root)
	if err != nil {
		return err
	}
	defer release()
	if ok, err := c.index.IsRemoved(root); !ok {
		return err
	}
	for _, kind := range []string{cloudObjects, cloudOutboards} {
		if err := c.bucket.Delete(ctx, cloudKey(kind, root)); err != nil {
			return err
		}
	}
	c.pending.Add(-1)
	return c.index.DropRemoved(root)
}

// countRemoved counts the list at the start.
func (c *cloud) countRemoved() error {
	n, err := c.index.CountRemoved()
	c.pending.Add(n)
	return err
}
