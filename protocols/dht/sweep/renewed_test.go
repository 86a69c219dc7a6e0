package sweep

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	ds "github.com/ipfs/go-datastore"
	"github.com/ipfs/go-datastore/query"
)

var errDisk = errors.New("the disk takes no writes")

// faulty is a datastore that another one can take the place of, and that
// refuses everything while broken is set.
type faulty struct {
	cur    atomic.Pointer[ds.Batching]
	times  atomic.Uint64
	broken atomic.Bool
}

func newFaulty() *faulty {
	f := &faulty{}
	d := memory()
	f.cur.Store(&d)
	return f
}

// renew has an empty datastore take the place.
func (f *faulty) renew() {
	d := memory()
	f.cur.Store(&d)
	f.times.Add(1)
}

func (f *faulty) ds() (ds.Batching, error) {
	if f.broken.Load() {
		return nil, errDisk
	}
	return *f.cur.Load(), nil
}

func (f *faulty) Get(ctx context.Context, k ds.Key) ([]byte, error) {
	d, err := f.ds()
	if err != nil {
		return nil, err
	}
	return d.Get(ctx, k)
}

func (f *faulty) Has(ctx context.Context, k ds.Key) (bool, error) {
	d, err := f.ds()
	if err != nil {
		return false, err
	}
	return d.Has(ctx, k)
}

func (f *faulty) GetSize(ctx context.Context, k ds.Key) (int, error) {
	d, err := f.ds()
	if err != nil {
		return -1, err
	}
	return d.GetSize(ctx, k)
}

func (f *faulty) Query(ctx context.Context, q query.Query) (query.Results, error) {
	d, err := f.ds()
	if err != nil {
		return nil, err
	}
	return d.Query(ctx, q)
}

func (f *faulty) Put(ctx context.Context, k ds.Key, v []byte) error {
	d, err := f.ds()
	if err != nil {
		return err
	}
	return d.Put(ctx, k, v)
}

func (f *faulty) Delete(ctx context.Context, k ds.Key) error {
	d, err := f.ds()
	if err != nil {
		return err
	}
	return d.Delete(ctx, k)
}

func (f *faulty) Sync(ctx context.Context, k ds.Key) error {
	d, err := f.ds()
	if err != nil {
		return err
	}
	return d.Sync(ctx, k)
}

func (f *faulty) Batch(ctx context.Context) (ds.Batch, error) {
	d, err := f.ds()
	if err != nil {
		return nil, err
	}
	return d.Batch(ctx)
}

func (f *faulty) Close() error { return nil }

// TestDatastoreRefuses: a datastore that refuses everything, at the start, while
// the sweep runs or at its end, does not make it fail, and it goes on by itself.
func TestDatastoreRefuses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, f := newWorld(50, 40), newFaulty()
		f.broken.Store(true)
		s := w.startWith(t, pace, Deps{Datastore: f, Replacements: f.times.Load})
		rest(10 * time.Minute)
		if got, _ := w.published(); got != 0 || s.log.count("tries again") != 1 {
			t.Errorf("%d roots published without a datastore, %d warnings", got, s.log.count("tries again"))
		}
		f.broken.Store(false)
		rest(10 * time.Minute)
		if got, _ := w.published(); got != 40 {
			t.Errorf("%d of 40 roots published once there is a datastore", got)
		}
		f.broken.Store(true)
		rest(time.Hour)
		s.stop()
	})
}

// TestDatastoreRenewed: after the datastore was replaced by an empty one all is
// published in time still.
func TestDatastoreRenewed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, f := newWorld(50, 40), newFaulty()
		s := w.startWith(t, pace, Deps{Datastore: f, Replacements: f.times.Load})
		defer s.stop()
		rest(10 * time.Minute)
		f.renew()
		rest(time.Minute)
		w.forget()
		rest(14 * time.Hour)
		if got, _ := w.published(); got != 40 {
			t.Errorf("%d of 40 roots published again", got)
		}
		if got := s.Lag(); got != 0 {
			t.Errorf("the lag is %s", got)
		}
	})
}
