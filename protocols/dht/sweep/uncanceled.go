package sweep

import (
	"context"

	ds "github.com/ipfs/go-datastore"
	"github.com/ipfs/go-datastore/query"
)

// uncanceled is a datastore whose queries and writes outlive their context: the library stores its queue when it is
// closed, with a context that it has canceled before.
type uncanceled struct{ ds.Batching }

// Query implements ds.Datastore.
func (u uncanceled) Query(ctx context.Context, q query.Query) (query.Results, error) {
	return u.Batching.Query(context.WithoutCancel(ctx), q)
}

// Put implements ds.Datastore.
func (u uncanceled) Put(ctx context.Context, key ds.Key, value []byte) error {
	return u.Batching.Put(context.WithoutCancel(ctx), key, value)
}

// Batch implements ds.Batching.
func (u uncanceled) Batch(ctx context.Context) (ds.Batch, error) {
	b, err := u.Batching.Batch(context.WithoutCancel(ctx))
	return uncanceledBatch{b}, err
}

// uncanceledBatch is a batch of an uncanceled datastore.
type uncanceledBatch struct{ ds.Batch }

// Put implements ds.Batch.
func (b uncanceledBatch) Put(ctx context.Context, key ds.Key, value []byte) error {
	return b.Batch.Put(context.WithoutCancel(ctx), key, value)
}

// Delete implements ds.Batch.
func (b uncanceledBatch) Delete(ctx context.Context, key ds.Key) error {
	return b.Batch.Delete(context.WithoutCancel(ctx), key)
}

// Commit implements ds.Batch.
func (b uncanceledBatch) Commit(ctx context.Context) error {
	return b.Batch.Commit(context.WithoutCancel(ctx))
}
