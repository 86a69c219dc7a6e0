// Package proofs keeps the proofs of holders over a restart, in the records of a node.
//
// The proofs of active objects are in pages, by the first bits of the object's address. A page is CBOR and its BLAKE3
// digest. Objects at rest are kept as the bytes of their plan.Page. Pages are written from time to time. Objects that
// changed since then are in batches, which have the form of pages. Challenges can prove all of it again. So a damaged
// page is removed, and no error stops the service.
package proofs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	ds "github.com/ipfs/go-datastore"

	"allium/protocols/b3"
)

// Space is the namespace of the proofs in the records of the node.
const Space = "durability"

const (
	pages      = 64
	shift      = 2       // of the first byte of an address, to the number of its page
	maxPage    = 1 << 20 // bytes of a page
	anyPage    = -1
	newsBatch  = 1 << 10 // objects of a batch
	newsAtOnce = 16      // batches that are written at a time
	maxBatches = 1 << 8  // then all pages are written
	maxNews    = 1 << 16 // objects
)

func pageOf(root b3.Root) int { return int(root[0]) >> shift }

func pageKey(page int) ds.Key {
	return ds.KeyWithNamespaces([]string{Space, fmt.Sprintf("%02d", page)})
}

func batchKey(i int) ds.Key {
	return ds.KeyWithNamespaces([]string{Space, fmt.Sprintf("news-%03d", i)})
}

func restKey(i int) ds.Key { return ds.KeyWithNamespaces([]string{Space, fmt.Sprintf("rest-%04d", i)}) }

// Records keeps proofs in a datastore. One goroutine at a time may call its methods; News may be used meanwhile.
type Records struct {
	News News

	ds    ds.Datastore
	log   *slog.Logger
	kept  [pages]b3.Root // the digests of the pages that are kept
	batch int            // the next number of a batch
}

// New returns Records in d.
func New(d ds.Datastore, log *slog.Logger) *Records {
	return &Records{ds: d, log: log, News: News{roots: map[b3.Root]struct{}{}}}
}

// Load returns what was kept of active objects, without the batches.
func (r *Records) Load(ctx context.Context) Of {
	objs := Of{}
	for i := range pages {
		r.read(ctx, pageKey(i), func(data []byte) error {
			err := decode(i, data, objs)
			if err == nil {
				r.kept[i] = b3.Sum(data)
			}
			return err
		})
	}
	return objs
}

// LoadBatches calls f for each batch, the oldest first.
func (r *Records) LoadBatches(ctx context.Context, f func(Of)) {
	for i := range maxBatches {
		r.read(ctx, batchKey(i), func(data []byte) error {
			objs := Of{}
			err := decode(anyPage, data, objs)
			if err == nil {
				r.batch = i + 1
				f(objs)
			}
			return err
		})
	}
}

// LoadRest calls f with the bytes of the page of objects at rest with the number i, if it is kept. An error of f says
// that it cannot be used.
func (r *Records) LoadRest(ctx context.Context, i int, f func(data []byte) error) {
	r.read(ctx, restKey(i), func(data []byte) error {
		text, err := unseal(data)
		if err == nil {
			err = f(text)
		}
		return err
	})
}

// read calls f with what is kept, and removes what cannot be used.
func (r *Records) read(ctx context.Context, key ds.Key, f func(data []byte) error) {
	data, err := r.ds.Get(ctx, key)
	if errors.Is(err, ds.ErrNotFound) {
		return
	}
	if err == nil {
		err = f(data)
	}
	if err == nil {
		return
	}
	r.log.Warn("what holders proved before the restart cannot be read; they prove it anew",
		"page", key.BaseNamespace(), "err", err)
	if err := r.ds.Delete(ctx, key); err != nil && ctx.Err() == nil {
		r.log.Debug("a damaged page of proofs stays", "page", key.BaseNamespace(), "err", err)
	}
}

// WriteRest keeps the bytes of the page of objects at rest with the number i; without any it is removed.
func (r *Records) WriteRest(ctx context.Context, i int, data []byte) error {
	if len(data) == 0 {
		return r.ds.Delete(ctx, restKey(i))
	}
	return r.ds.Put(ctx, restKey(i), seal(data))
}

// Write keeps what holders proved of all active objects, by the pages that differ from what is kept. rest is the error
// of keeping those at rest. With all these are kept too, so that the batches go.
func (r *Records) Write(ctx context.Context, objs Of, all bool, rest error) {
	var list [pages]Of
	for root, proofs := range objs {
		i := pageOf(root)
		if list[i] == nil {
			list[i] = Of{}
		}
		list[i][root] = proofs
	}
	errs := []error{rest}
	for i, objs := range list {
		errs = append(errs, r.writePage(ctx, i, objs))
	}
	err := errors.Join(append(errs, r.ds.Sync(ctx, ds.NewKey(Space)))...)
	if err == nil && all {
		err = r.dropBatches(ctx)
	}
	if err != nil {
		r.log.Debug("what holders proved is not kept over a restart", "err", err)
	}
}

// writePage writes a page, unless it is the same as before.
func (r *Records) writePage(ctx context.Context, i int, objs Of) error {
	var data []byte
	var sum b3.Root
	if len(objs) > 0 {
		var err error
		if data, err = encode(objs); err != nil {
			return err
		}
		sum = b3.Sum(data)
	}
	if sum == r.kept[i] {
		return nil
	}
	var err error
	if len(objs) == 0 {
		err = r.ds.Delete(ctx, pageKey(i))
	} else {
		err = r.ds.Put(ctx, pageKey(i), data)
	}
	if err == nil {
		r.kept[i] = sum
	}
	return err
}

// WriteNews keeps what proved returns for the objects of News, in batches. A later batch replaces what an earlier one,
// and a page, says of an object. It returns false if there are so many batches that all pages are to be written.
func (r *Records) WriteNews(ctx context.Context, proved func([]b3.Root) Of) bool {
	first := r.batch
	for r.batch < first+newsAtOnce {
		if r.batch >= maxBatches {
			return false
		}
		roots := r.News.take()
		if len(roots) == 0 {
			break
		}
		objs := proved(roots)
		if len(objs) == 0 {
			continue // all of them were forgotten meanwhile
		}
		data, err := encode(objs)
		if err == nil {
			err = r.ds.Put(ctx, batchKey(r.batch), data)
		}
		if err != nil {
			r.News.Add(roots)
			r.log.Debug("what holders proved is not kept over a restart", "err", err)
			break
		}
		r.batch++
	}
	if r.batch == first {
		return true
	}
	if err := r.ds.Sync(ctx, ds.NewKey(Space)); err != nil {
		r.log.Debug("what holders proved may not be kept over a restart", "err", err)
	}
	return true
}

// dropBatches removes the batches, as all that they say is in the pages. The latest one goes last: of an object it says
// what is true.
func (r *Records) dropBatches(ctx context.Context) error {
	for i := range r.batch {
		if err := r.ds.Delete(ctx, batchKey(i)); err != nil {
			return err
		}
	}
	r.batch = 0
	return nil
}
