package gc

import (
	"context"
	"errors"
	"sync"

	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/store/bloom"
	"allium/store/meta"
)

const (
	// maxNewTrees bounds the trees that were pinned during a collection and wait to be
	// marked one by one. Beyond it, all pins are marked again.
	maxNewTrees = 1024
	// maxBatch is the maximum number of objects that are removed at a time. A new recursive pin waits
	// for one batch at most.
	maxBatch = 256
	// maxPasses bounds how often an eviction repeats because the objects it chose were used
	// before it could remove them.
	maxPasses = 4
)

// cycle is one collection. It first marks what the pins reach. It removes an object only
// when the object is not marked, was not used since the cycle began (recent), is not
// leased, and no hold is older than its last use. These checks run in this order while the
// removal is registered in the lease table, so no use can come between. A tree that is
// pinned meanwhile, or a pinned directory that arrives, is marked before the next batch is
// removed.
type cycle struct {
	g        *Collector
	opt      Options
	marks    *bloom.Filter // what pins reach; a false positive keeps an object for this cycle
	recent   *bloom.Filter // what was used since the cycle began
	walk     walker
	duty     dutyCycle
	report   Report
	complete bool       // every object was looked at
	ages     *histogram // from the first pass of an eviction
	pin      meta.Pin   // whose tree is being walked

	mu sync.Mutex // lock: metadata
	arrivals
}

// arrivals are the trees that were pinned since the cycle began.
type arrivals struct {
	newTrees    []b3.Root // to mark before the next batch
	remarkAll   bool      // there were too many: mark all pins again
	absentTrees []b3.Root // of newTrees, not visible yet; the cycle's goroutine alone uses it
}

// errStopped ends a collection because Options.Removal returned false.
var errStopped = errors.New("enough")

func (c *cycle) run(ctx context.Context) error {
	// Later uses go to c.recent; earlier ones are in the index after the flush.
	if err := c.g.deps.Uses.Flush(ctx); err != nil {
		return err
	}
	if err := c.markPins(ctx); err != nil {
		return err
	}
	if err := c.evict(ctx); !errors.Is(err, errStopped) {
		return err
	}
	return nil
}

func (c *cycle) mark(ref manifest.Ref) bool {
	c.marks.Add(ref.Root)
	return false
}

func (c *cycle) damagedNode(path []Step) { c.noteDamage(damageAt(c.pin, path)) }

func (c *cycle) noteDamage(d Damage) {
	if len(c.report.Damaged) < maxDamages {
		c.report.Damaged = append(c.report.Damaged, d)
	}
}

// damageAt describes the damaged node at the end of path, which begins at a pin.
func damageAt(p meta.Pin, path []Step) Damage {
	return Damage{Pin: p, Node: path[len(path)-1].Root, Path: Path(path)}
}

// markPins marks what every pin reaches.
func (c *cycle) markPins(ctx context.Context) error {
	c.walk.nextPass()
	at := 0
	for p, err := range c.g.deps.Pins(ctx) {
		if err != nil {
			return err
		}
		c.marks.Add(p.Root)
		if at++; at%meta.PageSize == 0 {
			if err := c.duty.rest(ctx); err != nil {
				return err
			}
		}
		switch lost, err := c.g.isLost(ctx, p); {
		case err != nil:
			return err
		case lost:
			c.noteDamage(Damage{Pin: p, Node: p.Root, Absent: true})
			continue
		case !p.Recursive:
			continue
		}
		c.pin = p
		if _, _, err := c.walk.walk(ctx, p.Root); err != nil {
			return err
		}
		c.reportProgress()
	}
	return nil
}

func (c *cycle) reportProgress() {
	if c.opt.Progress != nil {
		c.report.Nodes = int64(c.walk.nodesRead)
		c.opt.Progress(c.report)
	}
}

// addTree has the tree of root marked before anything more is removed.
func (c *cycle) addTree(root b3.Root) {
	c.marks.Add(root)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.newTrees) == maxNewTrees {
		c.remarkAll = true
		return
	}
	c.newTrees = append(c.newTrees, root)
}

// beginRemoval marks the new trees, then registers a removal that later pins wait for.
func (c *cycle) beginRemoval(ctx context.Context) (end func(), err error) {
	again := c.absentTrees
	c.absentTrees = nil
	for {
		c.mu.Lock()
		fresh, remark := append(c.newTrees, again...), c.remarkAll
		again = nil
		if len(fresh) == 0 && !remark {
			end = c.g.BeginRemoval()
		}
		c.newTrees, c.remarkAll = nil, false
		c.mu.Unlock()
		if end != nil {
			return end, nil
		}
		if remark {
			c.walk.seen.Clear() // a directory may have arrived after its parent was walked
			if err := c.markPins(ctx); err != nil {
				return nil, err
			}
		}
		if err := c.markNewTrees(ctx, fresh); err != nil {
			return nil, err
		}
	}
}

// markNewTrees marks trees. A tree whose top is not visible yet, because its put was
// deferred, is marked again before the next batch.
func (c *cycle) markNewTrees(ctx context.Context, fresh []b3.Root) error {
	c.walk.nextPass()
	for _, root := range fresh {
		c.pin = meta.Pin{Root: root, Recursive: true}
		if _, _, err := c.walk.walk(ctx, root); err != nil {
			return err
		}
		if _, ok, err := c.g.findVisible(root); err != nil {
			return err
		} else if !ok && len(c.absentTrees) < maxNewTrees {
			c.absentTrees = append(c.absentTrees, root)
		}
	}
	return nil
}

// evict chooses the objects to remove and removes them.
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
		if err := c.scan(ctx, count, h.add); err != nil {
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
		if err := c.scan(ctx, false, h.pickOldest(need)); err != nil {
			return err
		}
		if c.opt.Dry || c.report.Classes[Removed] == before {
			return nil
		}
	}
	return nil
}
