package records

import (
	"bytes"
	"context"
	"errors"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	ds "github.com/ipfs/go-datastore"
	"github.com/ipfs/go-datastore/query"

	"allium/internal/pebbledb"
	"allium/protocols/status"
)

// do runs f on the current database. If that database has failed, it waits until another
// one replaces it, at most swapWait or until ctx ends, and runs f on that once.
func (s *Store) do(ctx context.Context, f func(*database) error) error {
	for second := false; ; second = true {
		db := s.cur.Load()
		if db == nil {
			return errNotOpen()
		}
		err := f(db)
		failed := db.Err() != nil || errors.Is(err, pebbledb.ErrClosed)
		if err == nil || !failed || second {
			return err
		}
		wait, cancel := context.WithTimeout(ctx, swapWait)
		select {
		case <-db.replaced:
		case <-wait.Done():
		}
		late := wait.Err()
		cancel()
		if late != nil {
			return err
		}
	}
}

func errNotOpen() error {
	return status.Errorf(status.NotReady, "the records of discovery are not open")
}

// Get implements ds.Read.
func (s *Store) Get(ctx context.Context, key ds.Key) (value []byte, err error) {
	err = s.do(ctx, func(db *database) error {
		value, err = db.Get(key.Bytes())
		return err
	})
	if errors.Is(err, pebbledb.ErrNotFound) {
		return nil, ds.ErrNotFound
	}
	return value, err
}

// Has implements ds.Read.
func (s *Store) Has(ctx context.Context, key ds.Key) (bool, error) {
	_, err := s.Get(ctx, key)
	if errors.Is(err, ds.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// GetSize implements ds.Read.
func (s *Store) GetSize(ctx context.Context, key ds.Key) (int, error) {
	v, err := s.Get(ctx, key)
	if err != nil {
		return -1, err
	}
	return len(v), nil
}

// Put implements ds.Write. It returns no_space when the database has reached its bound.
func (s *Store) Put(ctx context.Context, key ds.Key, value []byte) error {
	return s.apply(ctx, []op{{key: key.Bytes(), value: value}})
}

// Delete implements ds.Write.
func (s *Store) Delete(ctx context.Context, key ds.Key) error {
	return s.apply(ctx, []op{{key: key.Bytes(), remove: true}})
}

// Sync makes everything written to the current database durable. It fails if that
// database has failed. Values written to a database that was replaced since are lost, and
// Sync does not report that: see Renewed.
func (s *Store) Sync(context.Context, ds.Key) error {
	db := s.cur.Load()
	if db == nil {
		return errNotOpen()
	}
	return db.Sync()
}

// Close implements io.Closer. It does nothing: the end of Run closes the database.
func (s *Store) Close() error { return nil }

// op is one change.
type op struct {
	key, value []byte
	remove     bool
}

// apply writes the changes in one batch. When the database is full it leaves out the
// values, still makes the deletions, and returns no_space. From three quarters of the
// bound on it leaves out records of peers alone. The batch is atomic.
func (s *Store) apply(ctx context.Context, ops []op) error {
	refused := 0
	err := s.do(ctx, func(db *database) error {
		refused = 0
		peersFull := db.full(db.peersPart())
		full := db.full(db.most)
		added := 0
		err := db.Apply(false, func(b *pebble.Batch) error {
			for _, o := range ops {
				var err error
				switch {
				case o.remove:
					err = b.Delete(o.key, nil)
				case full || peersFull && strings.HasPrefix(string(o.key), s.cfg.Peers):
					refused++
				default:
					added += len(o.key) + len(o.value)
					err = b.Set(o.key, o.value, nil)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil {
			db.added.Add(int64(added))
		}
		return err
	})
	if err == nil && refused > 0 {
		s.m.refused.Add(float64(refused))
		err = status.Errorf(status.NoSpace,
			"the records of discovery have reached their bound, so %d of %d changes were not made", refused, len(ops))
	}
	return err
}

// Batch implements ds.Batching.
func (s *Store) Batch(context.Context) (ds.Batch, error) { return &batch{s: s}, nil }

type batch struct {
	s   *Store
	ops []op
}

func (b *batch) Put(_ context.Context, key ds.Key, value []byte) error {
	b.ops = append(b.ops, op{key: key.Bytes(), value: bytes.Clone(value)})
	return nil
}

func (b *batch) Delete(_ context.Context, key ds.Key) error {
	b.ops = append(b.ops, op{key: key.Bytes(), remove: true})
	return nil
}

func (b *batch) Commit(ctx context.Context) error {
	ops := b.ops
	b.ops = nil
	return b.s.apply(ctx, ops)
}

// The bounds of one page of a query. No iterator is open between two pages.
const (
	pageEntries = 256
	pageBytes   = 1 << 20
)

// Query implements ds.Read. It reads page after page, so its results are no snapshot. If
// the database is replaced between two pages, Query goes on in the new one.
func (s *Store) Query(ctx context.Context, q query.Query) (query.Results, error) {
	lower := ds.NewKey(q.Prefix).String()
	if lower != "/" {
		lower += "/"
	}
	upper := lower[:len(lower)-1] + "0" // the byte after the slash
	p := &pages{s: s, ctx: ctx, lower: []byte(lower), upper: []byte(upper),
		keysOnly: q.KeysOnly && !q.ReturnsSizes && len(q.Filters)+len(q.Orders) == 0}
	base := query.ResultsFromIterator(query.Query{}, query.Iterator{Next: p.next})
	found := query.NaiveQueryApply(query.Query{Filters: q.Filters, Orders: q.Orders, Offset: q.Offset, Limit: q.Limit},
		base)
	return query.ResultsReplaceQuery(found, q), nil
}

// pages is the iterator of a running query.
type pages struct {
	s            *Store
	ctx          context.Context
	lower, upper []byte // keys still to read: lower is the first, upper is excluded
	keysOnly     bool   // entries have no values

	page []query.Entry // entries read and not returned
	last bool          // no further page follows
}

func (p *pages) next() (query.Result, bool) {
	if len(p.page) == 0 && !p.last {
		if err := p.fetch(); err != nil {
			p.last = true
			return query.Result{Error: err}, true
		}
	}
	if len(p.page) == 0 {
		return query.Result{}, false
	}
	e := p.page[0]
	p.page = p.page[1:]
	return query.Result{Entry: e}, true
}

// fetch reads the next page: at most pageEntries, and values of about pageBytes.
func (p *pages) fetch() error {
	if err := p.ctx.Err(); err != nil {
		return err
	}
	return p.s.do(p.ctx, func(db *database) error {
		p.page, p.last = nil, true
		lower, size := p.lower, 0
		err := db.Each(p.lower, p.upper, func(k, v []byte) bool {
			e := query.Entry{Key: string(k), Size: len(v)}
			if !p.keysOnly {
				e.Value = append([]byte{}, v...)
				size += len(v)
			}
			p.page = append(p.page, e)
			if len(p.page) == pageEntries || size >= pageBytes {
				lower, p.last = append([]byte(e.Key), 0), false
				return false
			}
			return true
		})
		if err == nil {
			p.lower = lower
		}
		return err
	})
}
