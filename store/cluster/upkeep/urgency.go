package upkeep

import (
	"context"
	"slices"
	"time"

	"allium/protocols/b3"
	"allium/store/cluster/plan"
)

// The bounds of what reads say about the order of sends.
const (
	maxMissed = 1 << 10   // objects that are remembered as missed
	readFor   = time.Hour // for which a read puts an object before others
)

// Missed notes that a reader of a coded object found no holder of a shard, by the address of the manifest. For a while
// its shards are sent before those of others. It waits for no plan.
func (s *Service) Missed(manifest b3.Root) {
	now := s.deps.Now()
	s.planner.missed.note(manifest, uint64(now.UnixMilli()), now)
}

// order sorts sends by their priorities, once it has raised those of objects that are read. An awaited object is new,
// so nobody has read it yet.
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
	if _, missed := pl.missed.of(e.Root, pl.deps.Now()); missed {
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
