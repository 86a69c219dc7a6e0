package upkeep

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"allium/protocols/b3"
	"allium/store/cluster/plan"
)

// The bounds of what reads say about the order of sends.
const (
	maxMissed = 1 << 10   // objects that are remembered as missed
	readFor   = time.Hour // for which a read puts an object before others
)

// missed has the coded objects with a shard that readers got from no holder. It is safe for concurrent use.
type missed struct {
	mu sync.Mutex            // lock: leaf
	at map[b3.Root]time.Time // by the manifest, at most maxMissed
}

// note notes that an object was missed. Those for which that was too long ago make room.
func (m *missed) note(manifest b3.Root, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.at) >= maxMissed {
		maps.DeleteFunc(m.at, func(_ b3.Root, at time.Time) bool { return now.Sub(at) > readFor })
	}
	if _, known := m.at[manifest]; known || len(m.at) < maxMissed {
		m.at[manifest] = now
	}
}

// lately reports whether an object was missed lately.
func (m *missed) lately(manifest b3.Root, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, ok := m.at[manifest]
	return ok && now.Sub(at) <= readFor
}

// Missed notes that a reader of a coded object found no holder of a shard, by the address of the manifest. For a while
// its shards are sent before those of others. It waits for no plan.
func (s *Service) Missed(manifest b3.Root) { s.planner.missed.note(manifest, s.deps.Now()) }

// order sorts sends by their priorities, once it has raised those of objects that are read. What somebody waits for is
// new.
func (pl *planner) order(ctx context.Context, sends []planned) {
	for i := range sends {
		if p := &sends[i]; p.Priority == plan.Other && !p.awaited {
			p.Priority = pl.priority(ctx, p.entry)
		}
	}
	slices.SortStableFunc(sends, func(a, b planned) int { return int(a.Priority) - int(b.Priority) })
}

// priority returns how urgent a send of an object is that does not lack its last copy.
func (pl *planner) priority(ctx context.Context, e *entry) plan.Priority {
	if pl.missed.lately(e.Root, pl.deps.Now()) {
		return plan.WasMissed
	}
	root := e.Root
	if e.coded != nil {
		root = e.coded.Outboard // which is opened for each read
	}
	if used, err := pl.deps.Store.UsedWithin(ctx, root, readFor); err == nil && used {
		return plan.WasRead
	}
	return plan.Other // also when that is not known
}
