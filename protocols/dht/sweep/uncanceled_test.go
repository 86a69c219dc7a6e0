package sweep

import (
	"context"
	"testing"
	"time"

	ds "github.com/ipfs/go-datastore"
	"github.com/ipfs/go-datastore/query"
)

// strict is a datastore that refuses a canceled context, as one on disk does.
type strict struct{ ds.Batching }

func (s strict) Query(ctx context.Context, q query.Query) (query.Results, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return s.Batching.Query(ctx, q)
}

func (s strict) Put(ctx context.Context, key ds.Key, value []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.Batching.Put(ctx, key, value)
}

// TestStopStores: an orderly stop stores the state of the library.
func TestStopStores(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(5, 5)
		s := w.start(t, strict{memory()})
		rest(30 * time.Second)
		s.stop()
		if n := s.log.count("state was not stored"); n != 0 {
			t.Errorf("%d warnings", n)
		}
	})
}
