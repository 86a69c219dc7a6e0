package upkeep

import (
	"context"
	"errors"
	"fmt"
	"time"

	ds "github.com/ipfs/go-datastore"
)

// The bounds of what changed of the holders since all pages were written.
const (
	keepEvery  = 5 * time.Second // between two times that it is written
	newsBatch  = 1 << 10         // objects of a batch, which is a keptPage
	newsAtOnce = 16              // batches that are written at a time
	maxBatches = 1 << 8          // then all pages are written
	anyPage    = -1
)

// newsKey is the key of a batch: what holders proved of objects that changed, and the BLAKE3 digest of that.
func newsKey(i int) ds.Key {
	return ds.KeyWithNamespaces([]string{RecordsSpace, fmt.Sprintf("news-%03d", i)})
}

// keepNews writes what holders proved of the objects whose holders changed, in batches. A later batch replaces what an
// earlier one, and a page, says of an object. Only the goroutine of Run calls it.
func (s *Service) keepNews(ctx context.Context) {
	if s.deps.Records == nil {
		return
	}
	first := s.batch
	for s.batch < first+newsAtOnce {
		if s.batch >= maxBatches {
			s.keepProofs(ctx, pages)
			return
		}
		objs := s.takeNews()
		if len(objs) == 0 {
			break
		}
		data, err := encodeKept(objs)
		if err == nil {
			err = s.deps.Records.Put(ctx, newsKey(s.batch), data)
		}
		if err != nil {
			s.mu.Lock()
			for root := range objs {
				s.news[root] = struct{}{}
			}
			s.mu.Unlock()
			s.deps.Log.Debug("what holders proved is not kept over a restart", "err", err)
			break
		}
		s.batch++
	}
	if s.batch == first {
		return
	}
	if err := s.deps.Records.Sync(ctx, ds.NewKey(RecordsSpace)); err != nil {
		s.deps.Log.Debug("what holders proved may not be kept over a restart", "err", err)
	}
}

// takeNews returns what holders proved of up to newsBatch objects whose holders changed.
func (s *Service) takeNews() proofsOf {
	v, now := s.deps.View(), s.deps.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	objs := proofsOf{}
	for root := range s.news {
		if len(objs) == newsBatch {
			break
		}
		delete(s.news, root)
		if e := s.peek(root); e != nil {
			objs[root] = e.Proofs(v, s.p, now)
		}
	}
	return objs
}

// dropNews removes the batches, as all that they say is in the pages. The latest one goes last: of an object it says
// what is true.
func (s *Service) dropNews(ctx context.Context) error {
	for i := range s.batch {
		if err := s.deps.Records.Delete(ctx, newsKey(i)); err != nil {
			return err
		}
	}
	s.batch = 0
	return nil
}

// loadNews adds what batches say to objs, and takes their objects from the pages of those at rest.
func (s *Service) loadNews(ctx context.Context, objs proofsOf) {
	for i := range maxBatches {
		data, err := s.deps.Records.Get(ctx, newsKey(i))
		if errors.Is(err, ds.ErrNotFound) {
			continue
		}
		news := proofsOf{}
		if err == nil {
			err = decodeKept(anyPage, data, news)
		}
		if err != nil {
			s.dropKept(ctx, newsKey(i), err)
			continue
		}
		s.batch = i + 1
		s.mu.Lock()
		for root, proofs := range news {
			objs[root] = proofs
			if _, rests := s.objects.packed(root); rests {
				pg := &s.objects.pages[pageOf(root)]
				pg.Remove(root)
				s.objects.resting--
				pg.change(s.deps.Now())
			}
		}
		s.mu.Unlock()
	}
}
