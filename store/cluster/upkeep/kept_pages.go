package upkeep

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	ds "github.com/ipfs/go-datastore"

	"allium/protocols/b3"
	"allium/store/cluster/plan"
)

// keptAtOnce limits the pages of objects at rest that are written at a time, the oldest first. At the end all are.
const keptAtOnce = 256

// pageKey is the key of a page of objects at rest: its bytes, and their BLAKE3 digest.
func pageKey(i int) ds.Key {
	return ds.KeyWithNamespaces([]string{RecordsSpace, fmt.Sprintf("rest-%04d", i)})
}

// loadPages reads the objects that were at rest before a restart. Nothing is taken of one until a pin was seen that
// says the same.
func (s *Service) loadPages(ctx context.Context) {
	now := s.deps.Now()
	for i := range pages {
		data, err := s.deps.Records.Get(ctx, pageKey(i))
		if errors.Is(err, ds.ErrNotFound) {
			continue
		}
		var pg *plan.Page
		if err == nil {
			pg, err = s.readPage(i, data, now)
		}
		if err != nil {
			s.dropKept(ctx, pageKey(i), err)
			continue
		}
		s.mu.Lock()
		s.objects.pages[i] = page{Page: pg}
		s.objects.resting += pg.Len()
		s.mu.Unlock()
	}
}

// readPage returns those objects of a page whose proofs are still good.
func (s *Service) readPage(i int, data []byte, now time.Time) (*plan.Page, error) {
	text, err := checked(data)
	if err != nil {
		return nil, err
	}
	good := now.Add(-2 * s.p.AuditPeriod)
	other := false
	pg, err := plan.ReadPage(text, s.p, now, func(k plan.Packed) bool {
		*k.Mark() = byte(unconfirmed)
		other = other || pageOf(k.Root()) != i
		return k.Read(now).ProvedSince(good)
	})
	if err == nil && other {
		err = errors.New("it has an address of another page")
	}
	return pg, err
}

// withDigest appends the digest of what is to be kept.
func withDigest(data []byte) []byte {
	sum := b3.Sum(data)
	return append(data, sum[:]...)
}

// checked returns what was kept, without its digest.
func checked(data []byte) ([]byte, error) {
	end := len(data) - len(b3.Root{})
	if end < 0 {
		return nil, fmt.Errorf("it has %d bytes", len(data))
	}
	if sum := b3.Sum(data[:end]); !bytes.Equal(sum[:], data[end:]) {
		return nil, errors.New("its digest is another one")
	}
	return data[:end], nil
}

// dropKept removes what was kept and cannot be used.
func (s *Service) dropKept(ctx context.Context, key ds.Key, why error) {
	s.deps.Log.Warn("what holders proved before the restart cannot be read; they prove it anew",
		"page", key.BaseNamespace(), "err", why)
	if err := s.deps.Records.Delete(ctx, key); err != nil && ctx.Err() == nil {
		s.deps.Log.Debug("a damaged page of proofs stays", "page", key.BaseNamespace(), "err", err)
	}
}

// keepPages writes up to n pages that changed since they were written, and reports whether these were all. Only the
// goroutine of Run calls it.
func (s *Service) keepPages(ctx context.Context, n int) (all bool, errs []error) {
	type changed struct {
		page  int
		since time.Time
	}
	var list []changed
	s.mu.Lock()
	for i := range s.objects.pages {
		if since := s.objects.pages[i].changed; !since.IsZero() {
			list = append(list, changed{i, since})
		}
	}
	s.mu.Unlock()
	slices.SortFunc(list,
		func(a, b changed) int { return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.page, b.page)) })
	for _, c := range list[:min(n, len(list))] {
		s.mu.Lock()
		pg := &s.objects.pages[c.page]
		objects := pg.Len()
		data := pg.AppendBinary(nil)
		pg.changed = time.Time{}
		s.mu.Unlock()
		var err error
		if objects == 0 {
			err = s.deps.Records.Delete(ctx, pageKey(c.page))
		} else {
			err = s.deps.Records.Put(ctx, pageKey(c.page), withDigest(data))
		}
		if err != nil {
			s.mu.Lock()
			pg.changed = c.since
			s.mu.Unlock()
			errs = append(errs, err)
		}
	}
	return len(list) <= n, errs
}
