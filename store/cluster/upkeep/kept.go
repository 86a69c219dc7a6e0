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

// keeper keeps over a restart what holders proved. Only the goroutine of Run calls its methods. The News of its records
// are safe for concurrent use.
type keeper struct {
	*shared
	records *proofs.Records // nil: nothing is kept
}

// load reads what was kept before a restart. It is used for objects as they are found, until the first pass over the
// pins ends.
func (k *keeper) load(ctx context.Context) {
	if k.records == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, loadAtMost)
	defer cancel()
	objs := k.records.Load(ctx)
	k.loadPages(ctx)
	k.records.LoadBatches(ctx, func(batch proofs.Of) {
		k.inv.mu.Lock()
		defer k.inv.mu.Unlock()
		for root, list := range batch {
			objs[root] = list
			if _, rests := k.inv.packed(root); rests {
				pg := &k.inv.pages[pageOf(root)]
				pg.Remove(root)
				k.inv.resting--
				pg.change(k.deps.Now())
			}
		}
	})
	k.inv.mu.Lock()
	defer k.inv.mu.Unlock()
	k.inv.before = objs
}

// loadPages reads the objects that were at rest before a restart. Nothing is taken of one until a pin was seen that
// says the same.
func (k *keeper) loadPages(ctx context.Context) {
	now := k.deps.Now()
	for i := range pages {
		k.records.LoadRest(ctx, i, func(data []byte) error {
			pg, err := k.readPage(i, data, now)
			if err != nil {
				return err
			}
			k.inv.mu.Lock()
			defer k.inv.mu.Unlock()
			k.inv.pages[i] = page{Page: pg}
			k.inv.resting += pg.Len()
			return nil
		})
	}
}

// readPage returns those objects of a page whose proofs are still good.
func (k *keeper) readPage(i int, data []byte, now time.Time) (*plan.Page, error) {
	good := now.Add(-2 * k.p.AuditPeriod)
	other := false
	pg, err := plan.ReadPage(data, k.p, now, func(k plan.Packed) bool {
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
func (k *keeper) keepProofs(ctx context.Context, atRest int) {
	if k.records == nil {
		return
	}
	v, now, objs := k.deps.View(), k.deps.Now(), proofs.Of{}
	k.inv.mu.Lock()
	seen := k.inv.passes > 0
	for root, e := range k.inv.active {
		if list := e.At(v, k.p, now).Proofs(); len(list) > 0 {
			objs[root] = list
		}
	}
	k.inv.mu.Unlock()
	if seen {
		all, err := k.keepPages(ctx, atRest)
		k.records.Write(ctx, objs, all, err)
	}
}

// changed notes objects whose holders changed. Any goroutine may call it.
func (k *keeper) changed(roots []b3.Root) {
	if k.records != nil {
		k.records.News.Add(roots)
	}
}

// keepNews writes what holders proved of the objects whose holders changed. Only the goroutine of Run calls it.
func (k *keeper) keepNews(ctx context.Context) {
	if k.records != nil && !k.records.WriteNews(ctx, k.proved) {
		k.keepProofs(ctx, pages)
	}
}

// proved returns what holders proved of those of the objects that are planned.
func (k *keeper) proved(roots []b3.Root) proofs.Of {
	v, now := k.deps.View(), k.deps.Now()
	k.inv.mu.Lock()
	defer k.inv.mu.Unlock()
	objs := proofs.Of{}
	for _, root := range roots {
		if e := k.inv.peek(root); e != nil {
			objs[root] = e.At(v, k.p, now).Proofs()
		}
	}
	return objs
}

// keepPages writes up to n pages that changed since they were written, and reports whether these were all. Only the
// goroutine of Run calls it.
func (k *keeper) keepPages(ctx context.Context, n int) (all bool, err error) {
	type changed struct {
		page  int
		since time.Time
	}
	var list []changed
	k.inv.mu.Lock()
	for i := range k.inv.pages {
		if since := k.inv.pages[i].changed; !since.IsZero() {
			list = append(list, changed{i, since})
		}
	}
	k.inv.mu.Unlock()
	slices.SortFunc(list,
		func(a, b changed) int { return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.page, b.page)) })
	for _, c := range list[:min(n, len(list))] {
		k.inv.mu.Lock()
		pg := &k.inv.pages[c.page]
		var data []byte
		if pg.Len() > 0 {
			data = pg.AppendBinary(nil)
		}
		pg.changed = time.Time{}
		k.inv.mu.Unlock()
		if e := k.records.WriteRest(ctx, c.page, data); e != nil {
			k.inv.mu.Lock()
			pg.changed = c.since
			k.inv.mu.Unlock()
			err = errors.Join(err, e)
		}
	}
	return len(list) <= n, err
}
