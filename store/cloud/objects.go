package cloud

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/bucket"
	"allium/store/index"
	"allium/store/meta"
)

// objects are the large objects in the bucket.
type objects struct {
	*conn
	pending atomic.Int64 // removed objects that the bucket still has

	mu     sync.Mutex
	claims map[b3.Root]chan struct{} // objects being put or deleted in the bucket; closed when over
}

func newObjects(c *conn) *objects {
	return &objects{conn: c, claims: map[b3.Root]chan struct{}{}}
}

// Put puts a large object, which is verified, and its outboard into the bucket.
// What is there under its name, put by another node or before, stays, unless
// replace says that it is damaged, or its size is wrong.
func (o *objects) Put(ctx context.Context, root b3.Root, size int64, p meta.Pair, replace bool) error {
	if err := o.here(); err != nil {
		return err
	}
	release, err := o.claim(ctx, root)
	if err != nil {
		return err
	}
	defer release()
	if err := o.keep(root); err != nil {
		return err
	}
	outboard := b3.OutboardSize(size)
	if err := o.putHalf(ctx, objectKey(outboardPrefix, root), p.Outboard, outboard, replace); err != nil {
		return err
	}
	return o.putHalf(ctx, objectKey(objectPrefix, root), p.Data, size, replace)
}

// OpenObject returns a large object's bytes. It asks the bucket when it is read.
func (o *objects) OpenObject(root b3.Root, size int64) meta.File {
	return &file{c: o.conn, key: objectKey(objectPrefix, root), size: size}
}

// OpenOutboard returns the outboard of an object of size bytes.
func (o *objects) OpenOutboard(root b3.Root, size int64) meta.File {
	return &file{c: o.conn, key: objectKey(outboardPrefix, root), size: b3.OutboardSize(size)}
}

// Lacks reports whether the bucket says that it does not have root.
func (o *objects) Lacks(ctx context.Context, root b3.Root) bool {
	if o.here() != nil {
		return false
	}
	_, err := o.bucket.Stat(ctx, objectKey(objectPrefix, root))
	return status.Of(err) == status.NotFound
}

// keep takes root off the list of what is to be deleted. The caller has claimed
// it.
func (o *objects) keep(root b3.Root) error {
	if ok, err := o.index.IsRemoved(root); !ok {
		return err
	}
	o.pending.Add(-1)
	return o.index.DropRemoved(root)
}

func (o *objects) putHalf(ctx context.Context, key string, r io.ReaderAt, size int64, replace bool) error {
	if !replace {
		err := o.bucket.Put(ctx, key, r, size, true)
		if !errors.Is(err, bucket.ErrExists) {
			return err
		}
		switch there, err := o.bucket.Stat(ctx, key); {
		case err != nil && status.Of(err) != status.NotFound:
			return err
		case err == nil && there == size:
			return nil
		}
	}
	return o.bucket.Put(ctx, key, r, size, false)
}

// Remove adds to b that root, a large object, is to be deleted in the bucket.
// Where others share the bucket nothing is.
func (o *objects) Remove(b *index.Batch, root b3.Root) error {
	if o.cfg.Shared {
		return nil
	}
	return b.SetRemoved(root)
}

// Removed is told that so many large objects were removed.
func (o *objects) Removed(large int) {
	if o.cfg.Shared {
		return
	}
	o.pending.Add(int64(large))
	o.wake()
}

// deletesOnce is how many objects are deleted in the bucket at once.
const deletesOnce = 8

// deleteRemoved deletes what was removed here. What fails stays on the list
// and is tried again.
func (o *objects) deleteRemoved(ctx context.Context) {
	for ctx.Err() == nil {
		page, err := o.index.Removed(removedPage)
		if err == nil && len(page) > 0 {
			err = o.deletePage(ctx, page)
		}
		if err != nil && ctx.Err() == nil {
			o.log.Warn("removed objects stay in the bucket for now", "objects", o.pending.Load(), "err", err)
		}
		if err != nil || len(page) < removedPage {
			return
		}
	}
}

const removedPage = 256

func (o *objects) deletePage(ctx context.Context, page []b3.Root) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(deletesOnce)
	for _, root := range page {
		g.Go(func() error { return o.deleteObject(ctx, root) })
	}
	return g.Wait()
}

// deleteObject deletes root in the bucket, unless it is being put again.
func (o *objects) deleteObject(ctx context.Context, root b3.Root) error {
	release, err := o.claim(ctx, root)
	if err != nil {
		return err
	}
	defer release()
	if ok, err := o.index.IsRemoved(root); !ok {
		return err
	}
	for _, kind := range []string{objectPrefix, outboardPrefix} {
		if err := o.bucket.Delete(ctx, objectKey(kind, root)); err != nil {
			return err
		}
	}
	o.pending.Add(-1)
	return o.index.DropRemoved(root)
}

// countRemoved counts the list at the start.
func (o *objects) countRemoved() error {
	n, err := o.index.CountRemoved()
	o.pending.Add(n)
	return err
}

// claim waits until nobody else puts or deletes root in the bucket.
func (o *objects) claim(ctx context.Context, root b3.Root) (release func(), err error) {
	for {
		busy, release := o.tryClaim(root)
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
func (o *objects) tryClaim(root b3.Root) (busy <-chan struct{}, release func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if busy := o.claims[root]; busy != nil {
		return busy, nil
	}
	over := make(chan struct{})
	o.claims[root] = over
	return nil, func() {
		o.mu.Lock()
		delete(o.claims, root)
		o.mu.Unlock()
		close(over)
	}
}

// Each calls use with the name and size of each large object in the bucket.
func (o *objects) Each(ctx context.Context, use func(root b3.Root, size int64) error) error {
	for item, err := range o.bucket.List(ctx, objectPrefix) {
		if err != nil {
			return err
		}
		root, ok := parseObjectKey(objectPrefix, item.Key)
		if !ok {
			continue
		}
		if err := use(root, item.Size); err != nil {
			return err
		}
	}
	return nil
}
