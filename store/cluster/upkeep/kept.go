package upkeep

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"allium/protocols/b3"
	"allium/store/cluster/plan"
	"allium/store/cluster/upkeep/proofs"
)

const (
	keptTicks  = 10              // ticks between two times that all proofs are kept
	keptAtOnce = 256             // pages of objects at rest that are written then, the oldest first. At the end all are
	keepEvery  = 5 * time.Second // between two times that those are kept whose holders changed
	keepAtEnd  = time.Second
	loadAtMost = 5 * time.Second
)

// load reads what was kept before a restart. It is used for objects as they are found, until the first pass over the
// pins ends.
func (s *Service) load(ctx context.Context) {
	if s.records == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, loadAtMost)
	defer cancel()
	objs := s.records.Load(ctx)
	s.loadPages(ctx)
	s.records.LoadBatches(ctx, func(batch proofs.Of) {
		s.inventory.mu.Lock()
		defer s.inventory.mu.Unlock()
		for root, list := range batch {
			objs[root] = list
			if _, rests := s.inventory.packed(root); rests {
				pg := &s.inventory.pages[pageOf(root)]
				pg.Remove(root)
				s.inventory.resting--
				pg.change(s.deps.Now())
			}
		}
	})
	s.inventory.mu.Lock()
	defer s.inventory.mu.Unlock()
	s.inventory.before = objs
}

// loadPages reads the objects that were at rest before a restart. Nothing is taken of one until a pin was seen that
// says the same.
func (s *Service) loadPages(ctx context.Context) {
	now := s.deps.Now()
	for i := range pages {
		s.records.LoadRest(ctx, i, func(data []byte) error {
			pg, err := s.readPage(i, data, now)
			if err != nil {
				return err
			}
			s.inventory.mu.Lock()
			defer s.inventory.mu.Unlock()
			s.inventory.pages[i] = page{Page: pg}
			s.inventory.resting += pg.Len()
			return nil
		})
	}
}

// readPage returns those objects of a page whose proofs are still good.
func (s *Service) readPage(i int, data []byte, now time.Time) (*plan.Page, error) {
	good := now.Add(-2 * s.p.AuditPeriod)
	other := false
	pg, err := plan.ReadPage(data, s.p, now, func(k plan.Packed) bool {
		*k.Mark() = byte(unconfirmed)
		other = other || pageOf(k.Root()) != i
		return k.Read(now).ProvedSince(good)
	})
	if err == nil && other {
		err = errors.New("it has an address of another page")
	}
	return pg, err
}

// keepProofs writes what holders proved, once all pins were looked at, and up to so many pages of objects at rest. Only
// the goroutine of Run calls it.
func (s *Service) keepProofs(ctx context.Context, atRest int) {
	if s.records == nil {
		return
	}
	v, now, objs := s.deps.View(), s.deps.Now(), proofs.Of{}
	s.inventory.mu.Lock()
	seen := s.inventory.passes > 0
	for root, e := range s.inventory.active {
		if list := e.Proofs(v, s.p, now); len(list) > 0 {
			objs[root] = list
		}
	}
	s.inventory.mu.Unlock()
	if seen {
		all, err := s.keepPages(ctx, atRest)
		s.records.Write(ctx, objs, all, err)
	}
}

// keepNews writes what holders proved of the objects whose holders changed. Only the goroutine of Run calls it.
func (s *Service) keepNews(ctx context.Context) {
	if s.records != nil && !s.records.WriteNews(ctx, s.proved) {
		s.keepProofs(ctx, pages)
	}
}

// proved returns what holders proved of those of the objects that are planned.
func (s *Service) proved(roots []b3.Root) proofs.Of {
	v, now := s.deps.View(), s.deps.Now()
	s.inventory.mu.Lock()
	defer s.inventory.mu.Unlock()
	objs := proofs.Of{}
	for _, root := range roots {
		if e := s.inventory.peek(root); e != nil {
			objs[root] = e.Proofs(v, s.p, now)
		}
	}
	return objs
}

// keepPages writes up to n pages that changed since they were written, and reports whether these were all. Only the
// goroutine of Run calls it.
func (s *Service) keepPages(ctx context.Context, n int) (all bool, err error) {
	type changed struct {
		page  int
		since time.Time
	}
	var list []changed
	s.inventory.mu.Lock()
	for i := range s.inventory.pages {
		if since := s.inventory.pages[i].changed; !since.IsZero() {
			list = append(list, changed{i, since})
		}
	}
	s.inventory.mu.Unlock()
	slices.SortFunc(list,
		func(a, b changed) int { return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.page, b.page)) })
	for _, c := range list[:min(n, len(list))] {
		s.inventory.mu.Lock()
		pg := &s.inventory.pages[c.page]
		var data []byte
		if pg.Len() > 0 {
			data = pg.AppendBinary(nil)
		}
		pg.changed = time.Time{}
		s.inventory.mu.Unlock()
		if e := s.records.WriteRest(ctx, c.page, data); e != nil {
			s.inventory.mu.Lock()
			pg.changed = c.since
			s.inventory.mu.Unlock()
			err = errors.Join(err, e)
		}
	}
	return len(list) <= n, err
}
