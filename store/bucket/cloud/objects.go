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
	"allium/store/bucket/s3"
	"allium/store/disk/tables"
	"allium/store/meta"
)

// objects puts, opens and deletes large objects in the bucket.
type objects struct {
	*conn
	pending atomic.Int64 // removed objects that are still in the bucket

	mu     sync.Mutex                // lock: leaf
	claims map[b3.Root]chan struct{} // objects being put or deleted; closed when that has ended
}

func newObjects(c *conn) *objects {
	return &objects{conn: c, claims: map[b3.Root]chan struct{}{}}
}

// Put puts the outboard of a large object and then its bytes into the bucket. The caller has
// verified both. An object that is already there stays when it has the right size and
// replace is false. Put waits while the same object is being put or deleted.
func (o *objects) Put(ctx context.Context, root b3.Root, size int64, p meta.Pair, replace bool) error {
	if err := o.checkJoined(); err != nil {
		return err
	}
	release, err := o.claim(ctx, root)
	if err != nil {
		return err
	}
	defer release()
	if err := o.cancelRemoval(root); err != nil {
		return err
	}
	outboard := b3.OutboardSize(size)
	if err := o.putFile(ctx, objectKey(outboardPrefix, root), p.Outboard, outboard, replace); err != nil {
		return err
	}
	return o.putFile(ctx, objectKey(objectPrefix, root), p.Data, size, replace)
}

// OpenObject returns a file that reads a large object of size bytes. Opening sends nothing;
// each read may send requests. The caller closes the file.
func (o *objects) OpenObject(root b3.Root, size int64) meta.File {
	return &file{c: o.conn, key: objectKey(objectPrefix, root), size: size}
}

// OpenOutboard is OpenObject for the outboard of an object of size bytes.
func (o *objects) OpenOutboard(root b3.Root, size int64) meta.File {
	return &file{c: o.conn, key: objectKey(outboardPrefix, root), size: b3.OutboardSize(size)}
}

// Lacks reports whether the bucket answered that it does not have root. It returns false
// when the bucket cannot be reached.
func (o *objects) Lacks(ctx context.Context, root b3.Root) bool {
	if o.checkJoined() != nil {
		return false
	}
	_, err := o.bucket.Stat(ctx, objectKey(objectPrefix, root))
	return status.Of(err) == status.NotFound
}

// cancelRemoval takes root off the list of objects to delete. The caller has claimed root.
func (o *objects) cancelRemoval(root b3.Root) error {
	if ok, err := o.index.BucketRemovals.Has(root); !ok {
		return err
	}
	o.pending.Add(-1)
	return o.index.BucketRemovals.Drop(root)
}

// putFile puts size bytes of r under key. Unless replace is set, an object of that size that
// is already there stays.
func (o *objects) putFile(ctx context.Context, key string, r io.ReaderAt, size int64, replace bool) error {
	if !replace {
		err := o.bucket.Put(ctx, key, r, size, true)
		if !errors.Is(err, s3.ErrExists) {
			return err
		}
		switch stored, err := o.bucket.Stat(ctx, key); {
		case err != nil && status.Of(err) != status.NotFound:
			return err
		case err == nil && stored == size:
			return nil
		}
	}
	return o.bucket.Put(ctx, key, r, size, false)
}

// Remove adds to b that the large object root is to be deleted from the bucket. In a shared
// bucket it does nothing.
func (o *objects) Remove(b *tables.Batch, root b3.Root) error {
	if o.cfg.Shared {
		return nil
	}
	return b.SetBucketRemoval(root)
}

// Removed tells the goroutine of Serve that large more objects are on the list of objects
// to delete. Call it after the batch of Remove was committed. In a shared bucket it does
// nothing.
func (o *objects) Removed(large int) {
	if o.cfg.Shared {
		return
	}
	o.pending.Add(int64(large))
	o.signalWork()
}

const (
	maxDeletes  = 8   // objects that are deleted from the bucket at the same time
	removedPage = 256 // objects that are read from the list of objects to delete at once
)

// deleteRemoved deletes the objects on the list of objects to delete from the bucket, until
// the list is empty or a deletion fails. An object that could not be deleted stays on the list.
func (o *objects) deleteRemoved(ctx context.Context) {
	for ctx.Err() == nil {
		page, err := o.index.BucketRemovals.First(removedPage)
		if err == nil && len(page) > 0 {
			err = o.deletePage(ctx, page)
		}
		if err != nil && ctx.Err() == nil {
			o.log.Warn("cannot delete removed objects from the bucket; the node will try again",
				"objects", o.pending.Load(), "err", err)
		}
		if err != nil || len(page) < removedPage {
			return
		}
	}
}

func (o *objects) deletePage(ctx context.Context, page []b3.Root) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(maxDeletes)
	for _, root := range page {
		g.Go(func() error { return o.deleteObject(ctx, root) })
	}
	return g.Wait()
}

// deleteObject deletes the bytes and the outboard of root from the bucket, unless a put has
// taken root off the list meanwhile.
func (o *objects) deleteObject(ctx context.Context, root b3.Root) error {
	release, err := o.claim(ctx, root)
	if err != nil {
		return err
	}
	defer release()
	if ok, err := o.index.BucketRemovals.Has(root); !ok {
		return err
	}
	for _, kind := range []string{objectPrefix, outboardPrefix} {
		if err := o.bucket.Delete(ctx, objectKey(kind, root)); err != nil {
			return err
		}
	}
	o.pending.Add(-1)
	return o.index.BucketRemovals.Drop(root)
}

// countRemovals adds the length of the list of objects to delete to pending, at the start.
func (o *objects) countRemovals() error {
	n, err := o.index.BucketRemovals.Count()
	o.pending.Add(n)
	return err
}

// claim waits until no other call puts or deletes root, and claims it. The caller calls
// release once.
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

// tryClaim claims root and returns release, or returns a channel that is closed when the
// present claim ends.
func (o *objects) tryClaim(root b3.Root) (busy <-chan struct{}, release func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if busy := o.claims[root]; busy != nil {
		return busy, nil
	}
	released := make(chan struct{})
	o.claims[root] = released
	return nil, func() {
		o.mu.Lock()
		delete(o.claims, root)
		o.mu.Unlock()
		close(released)
	}
}

// Each calls use with the address and the size in bytes of each large object in the bucket,
// until use returns an error. It ignores other names.
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
