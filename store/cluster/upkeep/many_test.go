package upkeep

import (
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	ds "github.com/ipfs/go-datastore"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/env"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
	"allium/store/cluster/plan"
	"allium/store/cluster/repair"
	"allium/store/meta"
)

// crowd is a node with many pinned objects whose cluster answers at once: its clock is moved by hand.
type crowd struct {
	*Service
	objects int
	members []plan.Member
	now     time.Time
	lies    plan.ID  // says that it has nothing
	holds   []uint16 // which members hold an object, a bit for each
	sends   int
	asked   atomic.Int64 // objects that members were challenged for
	pins    func(i int) meta.Target
	records ds.Datastore
	most    int    // that were active at once
	unpins  func() // called for each pin that is removed; nil: no object has one of the cluster
	looked  func() // called when the store was asked for an object; may be nil
}

var crowdTarget = meta.Target{Copies: 3, Seq: 1_700_000_000_000}

// newCrowd returns a node whose members answer at once.
func newCrowd(p plan.Params, objects int) *crowd {
	c := &crowd{objects: objects, now: time.UnixMilli(int64(crowdTarget.Seq)), holds: make([]uint16, objects),
		records: ds.NewMapDatastore(), pins: func(int) meta.Target { return crowdTarget }}
	for i := range 12 {
		id := plan.ID(fmt.Sprintf("\x00\x24%036d", i)) // an identity multihash
		c.members = append(c.members, plan.Member{ID: id, Capacity: 1 << 40, Free: 1 << 40})
	}
	c.start(p)
	return c
}

// start makes the service of the node, as after a restart.
func (c *crowd) start(p plan.Params) {
	c.Service = New(p, Deps{
		Env:  env.Env{Metrics: prometheus.NewRegistry(), Now: func() time.Time { return c.now }},
		Self: c.members[0].ID, Store: c, Prover: c, Repairs: c,
		View:     func() *plan.View { return plan.NewView(c.members[0].ID, c.members, false) },
		Draining: func() time.Time { return time.Time{} },
		Send: func(_ context.Context, to peer.ID, copies []plan.Told, _ repair.Meter) ([]Sent, error) {
			c.sends += len(copies)
			for _, t := range copies {
				c.holds[crowdIndex(t.Root)] |= c.bit(to)
			}
			return make([]Sent, len(copies)), nil
		},
		Changed:  func(Change) {},
		Records:  c.records,
		Dropping: func(context.Context, b3.Root) (func(error), error) { return func(error) {}, nil },
	})
}

// crowdRoot returns the address of object i.
func crowdRoot(i int) (root b3.Root) {
	binary.LittleEndian.PutUint64(root[:], uint64(i))
	root = b3.Sum(root[:])
	binary.LittleEndian.PutUint64(root[24:], uint64(i))
	return root
}

func crowdIndex(root b3.Root) int { return int(binary.LittleEndian.Uint64(root[24:])) }

func (c *crowd) bit(id peer.ID) uint16 {
	return 1 << slices.IndexFunc(c.members, func(m plan.Member) bool { return m.ID == plan.ID(id) })
}

// tick runs a tick to the end of all that it begins.
func (c *crowd) tick(tb testing.TB, whole bool) {
	c.Service.tick(tb.Context(), whole)
	c.callers.running.Wait()
	c.most = max(c.most, len(c.inventory.active))
}

// settleAll has ticks follow each other until all targets are met.
func (c *crowd) settleAll(tb testing.TB) {
	for range 400 {
		c.tick(tb, true)
		for range 20 {
			c.now = c.now.Add(c.p.Tick / 20)
			c.tick(tb, false)
		}
		if sum := c.Sum(); sum.Objects == c.objects && sum.AtRisk+sum.Lost == 0 && len(c.inventory.active) == 0 {
			return
		}
	}
	tb.Fatalf("after all ticks it is %+v, with %d active", c.Sum(), len(c.inventory.active))
}

// Store.

func (c *crowd) Stat(_ context.Context, root b3.Root) (store.Info, error) {
	if c.looked != nil {
		defer c.looked()
	}
	return store.Info{Root: root, Size: 4096}, nil
}

func (c *crowd) Pins(context.Context) iter.Seq2[meta.Pin, error] {
	return func(yield func(meta.Pin, error) bool) {
		for i := range c.objects {
			if !yield(meta.Pin{Root: crowdRoot(i), Label: "x", Target: c.pins(i)}, nil) {
				return
			}
		}
	}
}

func (c *crowd) RemovedTargets(context.Context) iter.Seq2[meta.Pin, error] {
	return func(func(meta.Pin, error) bool) {}
}

func (c *crowd) UsedWithin(context.Context, b3.Root, time.Duration) (bool, error) { return false, nil }
func (c *crowd) HasPin(context.Context, b3.Root, string) (bool, error)            { return c.unpins != nil, nil }
func (c *crowd) ForgetTarget(context.Context, b3.Root, string) error              { return nil }

func (c *crowd) PinAll(_ context.Context, pins []store.Pinning) []error {
	return make([]error, len(pins))
}

func (c *crowd) SetTarget(_ context.Context, _ b3.Root, _ string, t meta.Target) (meta.Target, error) {
	return t, nil
}

func (c *crowd) Unpin(context.Context, b3.Root, string) error {
	c.unpins()
	return nil
}

// Prover.

func (c *crowd) Challenge(_ context.Context, to peer.ID, objs []b3.Root) ([]plan.Response, error) {
	c.asked.Add(int64(len(objs)))
	proofs := make([]plan.Response, len(objs))
	for i := range proofs {
		proofs[i].Answer = plan.Absent
		if c.holds[crowdIndex(objs[i])]&c.bit(to) != 0 && plan.ID(to) != c.lies {
			proofs[i].Answer = plan.Proved
		}
	}
	return proofs, nil
}

func (c *crowd) Tell(_ context.Context, _ peer.ID, told []plan.Told) ([]plan.Told, error) {
	answer := make([]plan.Told, len(told))
	for i, t := range told {
		answer[i].Root = t.Root
	}
	return answer, nil
}

func (c *crowd) Lease(context.Context, peer.ID, b3.Root) (bool, error) { return false, nil }

// Repairs.

func (c *crowd) Queue(job repair.Job) bool {
	_ = job.Run(context.Background(), repair.Meter{})
	return true
}

func (c *crowd) Trimmed(error) {}

// TestManyObjects: more objects than may be active at once get their copies all the same, a part after the other, rest
// in pages then, and are looked at again when a member is gone. A pass over their pins makes none active.
func TestManyObjects(t *testing.T) {
	p := plan.DefaultParams()
	c := newCrowd(p, 2000)
	c.inventory.activeLimit = 300
	c.settleAll(t)
	if c.most > 300 || c.sends != 4_000 {
		t.Errorf("%d objects were active at once, and %d copies sent", c.most, c.sends)
	}
	if n := c.inventory.resting; n != 2000 {
		t.Fatalf("%d of 2000 objects are at rest", n)
	}
	for range 3 {
		c.tick(t, true)
		c.now = c.now.Add(p.Tick)
	}
	if c.sends != 4_000 || c.Sum().Observed != 6_000 {
		t.Errorf("at rest %d copies were sent, and it is %+v", c.sends, c.Sum())
	}
	c.members[3].Gone = true
	c.tick(t, true)
	if sum := c.Sum(); sum.AtRisk < 2000/12 || sum.AtRisk != 6_000-sum.Observed {
		t.Errorf("after a member is gone it is %+v", sum)
	}
	c.now = c.now.Add(3 * p.Grace)
	c.settleAll(t)
	if c.most > 300 {
		t.Errorf("%d objects were active at once", c.most)
	}
	if c.sends < 4_000+2000/12 || c.sends > 4_000+2000/3 {
		t.Errorf("%d copies were sent in the place of those lost", c.sends-4_000)
	}
	c.objects -= 350 // pins are gone
	for range 6 {
		c.tick(t, true)
		c.now = c.now.Add(p.Tick)
	}
	if sum := c.Sum(); sum.Wanted != 3*c.objects+3*(350-300) && sum.Wanted != 3*c.objects {
		t.Errorf("without the pins of 350 objects it is %+v", sum)
	}
}

// TestRestOutlastsRestart: what was at rest is so again after a restart, unless its pin asks for something else or is
// gone, and nobody is asked for it. Until its pin was seen the node says busy, and counts none of it.
func TestRestOutlastsRestart(t *testing.T) {
	p := plan.DefaultParams()
	c := newCrowd(p, 400)
	c.settleAll(t)
	c.keeper.keepProofs(t.Context(), pages)
	c.now = c.now.Add(time.Minute)
	c.objects = 300
	c.pins = func(i int) meta.Target {
		target := crowdTarget
		if i < 10 {
			target.Copies, target.Seq = 2, target.Seq+1
		}
		return target
	}
	c.sends = 0
	c.asked.Store(0)
	c.start(p)
	c.keeper.load(t.Context())
	if n := c.inventory.resting; n != 400 {
		t.Fatalf("%d objects were kept", n)
	}
	if a := c.Answer(crowdRoot(20)); a != plan.Busy || c.Report().Objects != 0 {
		t.Errorf("before it has seen its pins it answers %d, and counts %d", a, c.Report().Objects)
	}
	c.tick(t, true)
	if a := c.Answer(crowdRoot(20)); a != plan.Proved || c.Sum().Observed < 290*3 {
		t.Errorf("then it answers %d, and it is %+v", a, c.Sum())
	}
	if n := c.inventory.resting; n < 290 || n > 300 || c.asked.Load() > 10*12 || c.sends > 0 {
		t.Errorf("%d objects are at rest, members were challenged for %d, %d copies were sent",
			n, c.asked.Load(), c.sends)
	}
	if c.inventory.peek(crowdRoot(350)) != nil || c.peek(crowdRoot(5)).Wanted() != 2 {
		t.Error("an object is planned that is not pinned any more, or with an old target")
	}
}

// TestTooManyActive: while too many objects are active, members that tell of others are asked to come back.
func TestTooManyActive(t *testing.T) {
	p := plan.DefaultParams()
	c := newCrowd(p, 50)
	c.settleAll(t)
	c.inventory.activeLimit = 0
	from := peer.ID(c.members[3].ID)
	told := []plan.Told{{Root: crowdRoot(1)}}
	if _, err := c.Told(t.Context(), from, told); status.Of(err) != status.Busy {
		t.Errorf("an object is told of: %v", err)
	}
	if _, err := c.GrantLease(t.Context(), from, crowdRoot(1)); status.Of(err) != status.Busy {
		t.Errorf("a lease is asked for: %v", err)
	}
	c.Claimed(from, []b3.Root{crowdRoot(1)})
	if a := c.Answer(crowdRoot(1)); a != plan.Proved || len(c.inventory.active) > 0 {
		t.Errorf("a challenge is answered with %d, and %d are active", a, len(c.inventory.active))
	}
	c.inventory.activeLimit = 10
	if _, err := c.Told(t.Context(), from, told); err != nil || len(c.inventory.active) != 1 {
		t.Errorf("with room again: %v, %d are active", err, len(c.inventory.active))
	}
}

// TestToldAtEndOfPass: a pass over the pins that ends while a member tells of objects forgets none of them: what is
// acknowledged is known.
func TestToldAtEndOfPass(t *testing.T) {
	c := newCrowd(plan.DefaultParams(), 0)
	c.holds = make([]uint16, 8)
	for range 3 {
		c.tick(t, true)
	}
	from := c.members[3].ID
	var told []plan.Told
	for i := range c.holds {
		asked := []plan.Asked{{Origin: from, Target: crowdTarget}}
		told = append(told, plan.Told{Root: crowdRoot(i), Asked: asked})
	}
	c.looked = func() { c.ended(false) }
	answers, err := c.Told(t.Context(), peer.ID(from), told)
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range answers {
		if len(a.Asked) != 1 || c.Answer(a.Root) != plan.Proved {
			t.Errorf("object %d: it knows %+v, and answers %d", i, a.Asked, c.Answer(a.Root))
		}
	}
}

// TestToldWhileDropping: a target that a member tells of just before a copy is dropped keeps it, and one that comes
// while the pins are being removed is not taken over, so that nobody believes in a copy that goes.
func TestToldWhileDropping(t *testing.T) {
	p := plan.DefaultParams()
	c := newCrowd(p, 1)
	from, root := c.members[3].ID, crowdRoot(0)
	tell := func(seq uint64) error {
		target := meta.Target{Copies: 2, Seq: seq}
		_, err := c.Told(t.Context(), peer.ID(from),
			[]plan.Told{{Root: root, Asked: []plan.Asked{{Origin: from, Target: target}}}})
		return err
	}
	begin := func() *entry {
		c.start(p)
		c.settleAll(t)
		e := c.find(root)
		e.Ask(c.members[0].ID, meta.Target{Seq: crowdTarget.Seq + 1}, c.now)
		return e
	}
	e, unpinned, told := begin(), 0, error(nil)
	c.unpins = func() {
		unpinned++
		told = tell(crowdTarget.Seq + 3)
	}
	c.dropper.drop(t.Context(), e)
	if unpinned == 0 || status.Of(told) != status.Busy || c.inventory.peek(root) != nil {
		t.Errorf("%d pins were removed, meanwhile the member was told %v", unpinned, told)
	}
	e, unpinned = begin(), 0
	if err := tell(crowdTarget.Seq + 2); err != nil {
		t.Fatal(err)
	}
	if c.dropper.drop(t.Context(), e); unpinned > 0 || c.inventory.peek(root).Wanted() != 2 {
		t.Errorf("%d pins were removed of a copy that is wanted", unpinned)
	}
}

// TestAuditsAtRest: within an audit period each holder of each object at rest is challenged.
func TestAuditsAtRest(t *testing.T) {
	p := plan.DefaultParams()
	objects := 300
	if testing.Short() {
		objects = 60
	}
	c := newCrowd(p, objects)
	c.settleAll(t)
	c.lies = c.members[5].ID
	held := 0
	for i := range c.objects {
		if c.inventory.peek(crowdRoot(i)).HeldBy(c.members[5].ID) {
			held++
		}
	}
	for range int(p.AuditPeriod/p.Tick) + 2 {
		c.now = c.now.Add(p.Tick)
		c.tick(t, true)
	}
	for i := range c.objects {
		if c.inventory.peek(crowdRoot(i)).HeldBy(c.members[5].ID) {
			t.Fatalf("one of the %d objects of a member that has none was not asked for", held)
		}
	}
	if held < objects/30 {
		t.Errorf("it held %d of %d objects", held, objects)
	}
}

// BenchmarkTickMillion: a whole tick of a node with a million pinned objects that are at rest, with the part of its
// pass over the pins and the audits that are due. It reports the part of a core at the default tick, and the bytes that
// the objects take.
func BenchmarkTickMillion(b *testing.B) {
	const objects = 1_000_000
	p := plan.DefaultParams()
	heap := func() float64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	before := heap()
	c := newCrowd(p, objects)
	c.settleAll(b)
	used := heap() - before
	b.ReportAllocs()
	for b.Loop() {
		c.now = c.now.Add(p.Tick)
		c.tick(b, true)
	}
	b.ReportMetric(used/1e6, "MB")
	b.ReportMetric(100*b.Elapsed().Seconds()/float64(b.N)/p.Tick.Seconds(), "%core")
}

// TestTickPlansWhatChanged: a tick that was asked for because something happened plans only the objects that it
// happened to, however many others have something to do. A tick after a while plans those too.
func TestTickPlansWhatChanged(t *testing.T) {
	t.Parallel()
	const objects = 200
	c := newCrowd(plan.DefaultParams(), objects)
	c.tick(t, true)
	for range 4 { // sends, then proofs
		c.tick(t, false)
	}
	if n := len(c.inventory.changed); n > 0 || c.sends != 2*objects {
		t.Fatalf("after %d sends of %d objects something happened to %d more", c.sends, objects, n)
	}
	var roots []b3.Root
	for i := range objects {
		roots = append(roots, crowdRoot(i))
	}
	if p := c.Progress(roots, crowdTarget); len(p.Unmet) > 0 {
		t.Fatalf("%d objects have no copies", len(p.Unmet))
	}
	c.now = c.now.Add(2 * c.p.AuditPeriod) // all are to be challenged
	c.Claimed(peer.ID(c.members[1].ID), roots[:1])
	before := c.asked.Load()
	if _, all := c.Service.tick(t.Context(), false); all {
		t.Error("it planned all objects")
	}
	c.callers.running.Wait()
	if n := c.asked.Load() - before; n < 1 || n > 4 {
		t.Errorf("%d challenges for one object", n)
	}
	c.inventory.all = true
	before = c.asked.Load()
	c.tick(t, false)
	if n := c.asked.Load() - before; n < 2*(objects-1) {
		t.Errorf("%d challenges for the other %d", n, objects-1)
	}
}

// TestTickEndsWhatItBegan: what a tick of all objects left out, as it did enough, the next one does.
func TestTickEndsWhatItBegan(t *testing.T) {
	t.Parallel()
	const objects = 3 * maxCalls / 4 // each with several actions at a time
	c := newCrowd(plan.DefaultParams(), objects)
	c.tick(t, true)
	for ticks := 1; c.sends < 2*objects || len(c.inventory.changed) > 0; ticks++ {
		if c.tick(t, false); ticks > 10 {
			t.Fatalf("after %d ticks %d of %d copies were sent", ticks, c.sends, 2*objects)
		}
	}
	c.now = c.now.Add(2 * c.p.AuditPeriod)
	c.inventory.all = true
	before := c.asked.Load()
	for range 3 {
		c.tick(t, false)
	}
	if n := c.asked.Load() - before; n < 2*objects {
		t.Errorf("%d challenges of %d copies", n, 2*objects)
	}
}

// TestProgressAllocates: a look at objects that wait for copies allocates little for each: it is repeated until they
// have them.
func TestProgressAllocates(t *testing.T) {
	const objects = 500
	c := newCrowd(plan.DefaultParams(), objects)
	c.tick(t, true)
	var roots []b3.Root
	for i := range objects {
		roots = append(roots, crowdRoot(i))
	}
	if n := testing.AllocsPerRun(10, func() { c.Progress(roots, crowdTarget) }); n > 4*objects {
		t.Errorf("%.0f allocations for %d objects", n, objects)
	}
}
