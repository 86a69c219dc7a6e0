package gc

import (
	"context"
	"errors"
	"sync"

	"allium/protocols/b3"
	"allium/store/bloom"
	"allium/store/meta"
)

const (
	// maxFresh is how many trees that were pinned while a collection runs wait
	// to be marked one by one; beyond it all pins are marked again.
	maxFresh = 1024
	// maxBatch is how many objects are removed at a time. A new recursive pin
	// waits for one batch at most.
	maxBatch = 256
	// maxPasses is how often an eviction looks again when what it chose was
	// used before it could be removed.
	maxPasses = 4
)

// cycle is one collection.
//
// What pins hold is marked first. An object is removed only when it is not
// marked, was not used since the cycle began (young), is not leased, and no
// hold is older than its last use: looked at in this order with its removal
// registered in the roots table, so that no use can come between. A tree that
// is pinned meanwhile, or a pinned directory that arrives, is marked before the
// next batch is removed.
type cycle struct {
	g        *Collector
	opt      Options
	marks    *bloom.Filter // may hold what no pin does: that stays for this cycle
	young    *bloom.Filter
	walk     walker
	pace     pacer
	report   Report
	complete bool       // every object was looked at
	ages     *histogram // of the first look of an eviction
	pin      meta.Pin   // that is being followed

	mu     sync.Mutex
	fresh  []b3.Root // trees to mark before the next batch
	remark bool      // there were too many: mark all pins again
	absent []b3.Root // of fresh, not visible yet; of the collecting goroutine
}

// errEnough ends a collection whose caller has seen enough.
var errEnough = errors.New("enough")

func (c *cycle) run(ctx context.Context) error {
	// From here on uses are young; those before are in the index.
	if err := c.g.deps.Uses.Flush(ctx); err != nil {
		return err
	}
	if err := c.markPins(ctx); err != nil {
		return err
	}
	err := c.evict(ctx)
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

func (c *cycle) mark(root b3.Root) bool {
	c.marks.Add(root)
	return false
}

func (c *cycle) damage(path []Step) { c.note(damageAt(c.pin, path)) }

func (c *cycle) note(d Damage) {
	if len(c.report.Damaged) < maxDamages {
		c.report.Damaged = append(c.report.Damaged, d)
	}
}

// damageAt is the damage of the last node of path, which begins at a pin.
func damageAt(p meta.Pin, path []Step) Damage {
	return Damage{Pin: p, Node: path[len(path)-1].Root, Path: Path(path)}
}

// markPins marks what every pin holds.
func (c *cycle) markPins(ctx context.Context) error {
	at := 0
	for p, err := range c.g.deps.Pins(ctx) {
		if err != nil {
			return err
		}
		c.marks.Add(p.Root)
		if at++; at%meta.PageSize == 0 {
			if err := c.pace.rest(ctx); err != nil {
				return err
			}
		}
		lost, err := c.g.lost(ctx, p)
		if err != nil {
			return err
		}
		if lost {
			c.note(Damage{Pin: p, Node: p.Root, Absent: true})
			continue
		}
		if !p.Recursive {
			continue
		}
		c.pin = p
		if _, _, err := c.walk.walk(ctx, p.Root); err != nil {
			return err
		}
		c.tell()
	}
	return nil
}

func (c *cycle) tell() {
	if c.opt.Progress != nil {
		c.report.Nodes = int64(c.walk.read)
		c.opt.Progress(c.report)
	}
}

// announce has root's tree marked before anything more is removed.
func (c *cycle) announce(root b3.Root) {
	c.marks.Add(root)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.fresh) == maxFresh {
		c.remark = true
		return
	}
	c.fresh = append(c.fresh, root)
}

// begin marks what was announced and then begins a removal that later pins wait
// for.
func (c *cycle) begin(ctx context.Context) (over func(), err error) {
	again := c.absent
	c.absent = nil
	for {
		c.mu.Lock()
		fresh, remark := append(c.fresh, again...), c.remark
		again = nil
		if len(fresh) == 0 && !remark {
			over = c.g.Removing()
		}
		c.fresh, c.remark = nil, false
		c.mu.Unlock()
		if over != nil {
			return over, nil
		}
		if remark {
			clear(c.walk.seen) // of what was not here when it was walked
			if err := c.markPins(ctx); err != nil {
				return nil, err
			}
		}
		if err := c.markFresh(ctx, fresh); err != nil {
			return nil, err
		}
	}
}

// markFresh marks trees. One whose top is not visible yet, because its put was
// deferred, is tried again before the next batch.
func (c *cycle) markFresh(ctx context.Context, fresh []b3.Root) error {
	for _, root := range fresh {
		c.pin = meta.Pin{Root: root, Recursive: true}
		if _, _, err := c.walk.walk(ctx, root); err != nil {
			return err
		}
		if _, ok, err := c.g.find(root); err != nil {
			return err
		} else if !ok && len(c.absent) < maxFresh {
			c.absent = append(c.absent, root)
		}
	}
	return nil
}

// evict chooses what goes and removes it.
func (c *cycle) evict(ctx context.Context) error {
	if c.opt.All && !c.report.Blocked() {
		everything := func(candidate) bool { return true }
		if err := c.scan(ctx, true, everything); err != nil {
			return err
		}
		c.complete = true
		return nil
	}
	for pass := range maxPasses {
		h := &histogram{now: c.g.deps.Clock.Stamp()}
		count := pass == 0
		if err := c.scan(ctx, count, h.note); err != nil {
			return err
		}
		c.complete = true
		need := c.g.deps.Account.bounds().excess(c.g.deps.Account.usage())
		if count && !c.opt.All {
			c.report.Need = need.Count
			c.report.Need.Bytes = max(need.Bytes, need.local)
			c.ages = h
		}
		if need == (amount{}) || c.report.Blocked() {
			return nil
		}
		before := c.report.Classes[Removed]
		if err := c.scan(ctx, false, h.oldest(need)); err != nil {
			return err
		}
		if c.opt.Dry || c.report.Classes[Removed] == before {
			return nil
		}
	}
	return nil
}
