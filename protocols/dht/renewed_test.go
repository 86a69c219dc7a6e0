package dht

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	ds "github.com/ipfs/go-datastore"
	"github.com/ipfs/go-datastore/query"
)

// renewable is a datastore that another one can take the place of.
type renewable struct {
	cur   atomic.Pointer[ds.Batching]
	times atomic.Uint64
}

func (r *renewable) renew(d ds.Batching) {
	if r.cur.Swap(&d) != nil {
		r.times.Add(1)
	}
}

func (r *renewable) ds() ds.Batching { return *r.cur.Load() }

func (r *renewable) Get(ctx context.Context, k ds.Key) ([]byte, error) { return r.ds().Get(ctx, k) }
func (r *renewable) Has(ctx context.Context, k ds.Key) (bool, error)   { return r.ds().Has(ctx, k) }
func (r *renewable) GetSize(ctx context.Context, k ds.Key) (int, error) {
	return r.ds().GetSize(ctx, k)
}
func (r *renewable) Put(ctx context.Context, k ds.Key, v []byte) error { return r.ds().Put(ctx, k, v) }
func (r *renewable) Delete(ctx context.Context, k ds.Key) error        { return r.ds().Delete(ctx, k) }
func (r *renewable) Sync(ctx context.Context, k ds.Key) error          { return r.ds().Sync(ctx, k) }
func (r *renewable) Batch(ctx context.Context) (ds.Batch, error)       { return r.ds().Batch(ctx) }
func (r *renewable) Close() error                                      { return nil }
func (r *renewable) Query(ctx context.Context, q query.Query) (query.Results, error) {
	return r.ds().Query(ctx, q)
}

// TestPersistRenewed: a datastore that was begun anew soon has all records
// again, and what another one had of earlier is read.
func TestPersistRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		earlier := inMemory()
		old, wOld := newPersisted(t, earlier, 5000)
		me := newIdentity(t)
		if err := old.put(me.own(t, root("earlier"), 1, time.Now().Add(time.Hour)), time.Now()); err != nil {
			t.Fatal(err)
		}
		wOld.Flush(t.Context())

		d := &renewable{}
		d.renew(inMemory())
		p := newProviderStore(20, 5000, 5000)
		deps := persistDeps(t)
		deps.Replacements = d.times.Load
		w := newPersister(d, p, testVerifier(), deps)
		defer inBackground(t, w)()
		for i := range 600 {
			if err := p.put(me.own(t, root(fmt.Sprint(i)), uint64(i), time.Now().Add(time.Hour)),
				time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Second)
		for _, next := range []ds.Batching{inMemory(), earlier} {
			d.renew(next)
			time.Sleep(10 * time.Second)
			if n := len(entries(t, next)); n < 600 {
				t.Errorf("%d records in the new datastore", n)
			}
		}
		if p.len() != 601 || len(entries(t, earlier)) != 601 {
			t.Errorf("%d records in RAM, %d on disk; want 601 of each", p.len(), len(entries(t, earlier)))
		}
	})
}
