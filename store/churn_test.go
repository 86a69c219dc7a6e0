package store_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
	"allium/store/storetest"
)

// TestChurn lives a day of a cache node in virtual time: objects come, are read,
// pinned, unpinned and deleted, downloads are left half done, evictions and
// every background job run by the clock, and every two hours the machine loses
// its power. What is pinned is there throughout, nothing wrong is served, the
// bounds hold, the counters are right, and the space that was used comes back.
func TestChurn(t *testing.T) {
	hours := 24
	if testing.Short() {
		hours = 2
	}
	synctest.Test(t, func(t *testing.T) {
		c := &churn{t: t, fs: vfs.NewCrashableMem(), random: rand.New(rand.NewPCG(3, 5)), pinned: map[int]bool{}}
		c.cfg = tiny()
		c.cfg.MaxBytes = 12 << 20
		c.cfg.ReserveBytes = 0
		c.start()
		for hour := range hours {
			for range 60 {
				c.minute()
				time.Sleep(time.Minute)
			}
			c.check(hour)
			if hour%2 == 1 {
				c.crash()
				c.check(hour)
			}
		}
		if c.evicted == 0 || c.resumed == 0 || c.put == 0 {
			t.Fatalf("a day without work: %d put, %d evicted, %d downloads resumed", c.put, c.evicted, c.resumed)
		}
		t.Logf("%d put, %d read, %d found evicted, %d downloads resumed", c.put, c.read, c.evicted, c.resumed)
		c.stop()
	})
}

// churn is the world of the store.
type churn struct {
	t      *testing.T
	fs     *vfs.MemFS
	random *rand.Rand
	cfg    store.Config
	s      *store.Store
	stop   func() error

	newest int          // objects are numbered in the order they come
	pinned map[int]bool // acknowledged

	put, read, evicted, resumed int
}

func (c *churn) start() {
	c.s, c.stop = storetest.Start(c.t, c.cfg, store.Deps{FS: c.fs})
}

// crash takes a copy of what is on the disk for sure, and perhaps of some more,
// and goes on from there.
func (c *churn) crash() {
	clone := c.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: c.random.IntN(101), RNG: c.random})
	if err := c.stop(); err != nil {
		c.t.Fatal(err)
	}
	c.fs = clone
	c.start()
}

// churnSizes are mostly small.
var churnSizes = []int{700, 4096, 4096, 4096, 20_000, b3.GroupSize, b3.GroupSize + 1, 5 * b3.GroupSize}

func (c *churn) content(i int) []byte {
	return storetest.Bytes(uint64(i), churnSizes[i%len(churnSizes)]+i%97)
}

// recent is an object of late, the latest more often.
func (c *churn) recent() int { return max(0, c.newest-1-int(c.random.ExpFloat64()*80)) }

func (c *churn) minute() {
	ctx := c.t.Context()
	for range 8 + c.random.IntN(8) {
		switch c.random.IntN(12) {
		case 0, 1, 2, 3, 4:
			p := c.content(c.newest)
			c.newest++
			c.want(c.s.PutBytes(ctx, p, store.PutOptions{Deferred: c.random.IntN(2) == 0}))
			c.put++
		case 5, 6, 7:
			c.get(c.recent())
		case 8:
			if len(c.pinned) < 60 {
				i := c.recent()
				if err := c.s.Pin(ctx, b3.Sum(c.content(i)), store.PinOptions{Recursive: true}); err == nil {
					c.pinned[i] = true
				} else {
					storetest.Want(c.t, err, status.NotFound)
				}
			}
		case 9:
			for i := range c.pinned {
				if err := c.s.Unpin(ctx, b3.Sum(c.content(i)), ""); err != nil {
					c.t.Fatal(err)
				}
				delete(c.pinned, i)
				break
			}
		case 10:
			i := c.recent()
			want := []status.Outcome{status.Conflict} // while it is pinned, or deferred
			if !c.pinned[i] {
				want = append(want, status.OK, status.NotFound)
			}
			c.oneOf(c.s.Delete(ctx, b3.Sum(c.content(i))), want...)
		case 11:
			c.download(c.newest + 100_000)
		}
	}
	if err := c.s.Flush(ctx); err != nil {
		c.t.Fatal(err)
	}
}

func (c *churn) want(_ store.Info, err error) {
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *churn) oneOf(err error, want ...status.Outcome) {
	got := status.Of(err)
	for _, w := range want {
		if got == w {
			return
		}
	}
	c.t.Fatalf("outcome %s (%v), want one of %v", got, err, want)
}

// get reads an object, which is there when it is pinned.
func (c *churn) get(i int) {
	got, err := storetest.Get(c.t, c.s, b3.Sum(c.content(i)))
	switch {
	case err == nil && b3.Sum(got) == b3.Sum(c.content(i)):
		c.read++
	case status.Of(err) == status.NotFound && !c.pinned[i]:
		c.evicted++
	default:
		c.t.Fatalf("object %d, pinned %t: %d bytes, %v", i, c.pinned[i], len(got), err)
	}
}

// download gets some of the missing groups of a large object, and the whole
// every now and then.
func (c *churn) download(i int) {
	i -= i % (40 * len(churnSizes)) // the same one for a while
	p := storetest.Bytes(uint64(i), 9*b3.GroupSize+i%b3.GroupSize)
	root := b3.Sum(p)
	in, err := c.s.Ingest(c.t.Context(), root, int64(len(p)))
	if err != nil {
		c.t.Fatal(err)
	}
	if in.Held() > 0 {
		c.resumed++
	}
	last := c.random.Int64N(12)
	for _, item := range storetest.Items(c.t, p, int64(len(p))) {
		if item.IsParent() || !in.Has(item.Group()) && (item.Group() <= last || item.SizeProved()) {
			if err := in.Write(item); err != nil {
				c.t.Fatal(err)
			}
		}
	}
	if _, err := in.Commit(c.t.Context(), false); err != nil {
		storetest.Want(c.t, err, status.Precondition)
		in.Suspend()
	}
}

// check looks at everything that has to be true at any time.
func (c *churn) check(hour int) {
	ctx := c.t.Context()
	for i := range c.pinned {
		c.get(i)
	}
	var objects, bytes int64
	for info, err := range c.s.List(ctx) {
		if err != nil || info.Corrupt {
			c.t.Fatalf("hour %d: %+v, %v", hour, info, err)
		}
		objects++
		bytes += info.Size
	}
	for root, err := range storetest.VerifyAll(ctx, c.s) {
		if err != nil {
			c.t.Fatalf("hour %d: %s: %v", hour, root, err)
		}
	}
	synctest.Wait()
	if err := c.s.CheckUsage(); err != nil {
		c.t.Fatalf("hour %d: %v", hour, err)
	}
	st := c.s.Stats()
	if st.Objects != objects || st.Bytes != bytes || st.Leases != 0 {
		c.t.Fatalf("hour %d: %d objects of %d bytes are listed, and stats say %+v", hour, objects, bytes, st)
	}
	if held := bytes + st.PartialBytes; held > int64(c.cfg.MaxBytes) {
		c.t.Fatalf("hour %d: %d bytes are held, the bound is %d", hour, held, int64(c.cfg.MaxBytes))
	}
	pins := 0
	for _, err := range c.s.Pins(ctx) {
		if err != nil {
			c.t.Fatal(err)
		}
		pins++
	}
	if pins != len(c.pinned) {
		c.t.Fatalf("hour %d: %d pins, want %d", hour, pins, len(c.pinned))
	}
	if onDisk := c.size(ctx, c.cfg.Dir); onDisk > 4*int64(c.cfg.MaxBytes) {
		c.t.Fatalf("hour %d: %d bytes of files for %d of objects", hour, onDisk, bytes)
	}
}

// size is how long all files below dir are.
func (c *churn) size(ctx context.Context, dir string) (n int64) {
	names, err := c.fs.List(dir)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, name := range names {
		info, err := c.fs.Stat(path.Join(dir, name))
		switch {
		case err != nil:
			c.t.Fatal(fmt.Errorf("%s: %w", name, err))
		case info.IsDir():
			n += c.size(ctx, path.Join(dir, name))
		default:
			n += info.Size()
		}
	}
	return n
}
