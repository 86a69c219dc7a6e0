package store_test

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
	"allium/store/gc"
	"allium/store/meta"
	"allium/store/storetest"
)

// TestGCModel runs random operations, collections and crashes on a store that
// is too small for all, and compares it with maps: what was acknowledged and
// pinned is there, what was removed is not until it is put again, nothing wrong
// is served, and the counters equal the listing.
func TestGCModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		var failed any
		synctest.Test(t, func(t *testing.T) {
			defer func() { failed = recover() }() // rapid wants it in its own goroutine
			m := &gcModel{t: t, r: r, fs: vfs.NewCrashableMem(), pinned: map[int]bool{}, gone: map[int]bool{}}
			for i := range gcModelSize {
				m.gone[i] = true
			}
			m.start()
			for range rapid.IntRange(1, 30).Draw(r, "steps") {
				m.step(rapid.IntRange(0, gcModelSize-1).Draw(r, "object"))
			}
			m.check()
			m.crash()
			m.check()
			m.end()
		})
		if failed != nil {
			panic(failed)
		}
	})
}

const gcModelSize = 14

// gcModel is what a store has to be like.
type gcModel struct {
	t      *testing.T
	r      *rapid.T
	fs     *vfs.MemFS
	s      *store.Store
	stop   func() error
	pinned map[int]bool
	gone   map[int]bool // for sure; what is neither may be evicted at any time
}

func (m *gcModel) start() {
	cfg := tiny()
	cfg.MaxBytes, cfg.ReserveBytes = 600_000, 0
	m.s, m.stop = storetest.Start(m.t, cfg, store.Deps{FS: m.fs})
}

func (m *gcModel) end() {
	if err := m.stop(); err != nil {
		m.r.Fatal(err)
	}
}

func (m *gcModel) content(i int) []byte {
	return storetest.Bytes(uint64(i), []int{0, 100, 4096, 30_000, b3.GroupSize - 20, b3.GroupSize + 1,
		4 * b3.GroupSize}[i%7]+i)
}

// outcome is how an operation went, which has to be one of want.
func (m *gcModel) outcome(op string, err error, want ...status.Outcome) status.Outcome {
	got := status.Of(err)
	for _, w := range want {
		if got == w {
			return got
		}
	}
	m.r.Fatalf("%s: outcome %s (%v), want one of %v", op, got, err, want)
	return got
}

func (m *gcModel) flush() { m.outcome("flush", m.s.Flush(m.t.Context()), status.OK) }

func (m *gcModel) step(i int) {
	ctx, p := m.t.Context(), m.content(i)
	root := b3.Sum(p)
	switch op := rapid.SampledFrom([]string{"put", "defer", "get", "delete", "pin", "unpin", "touch", "gc", "evict",
		"ingest", "drop", "crash"}).Draw(m.r, "op"); op {
	case "put", "defer":
		_, err := m.s.PutBytes(ctx, p, store.PutOptions{Deferred: op == "defer"})
		if m.outcome(op, err, status.OK, status.NoSpace) == status.OK {
			delete(m.gone, i)
		}
	case "get":
		m.get(i)
	case "touch":
		time.Sleep(time.Duration(rapid.IntRange(1, 30).Draw(m.r, "minutes")) * time.Minute)
		m.get(i)
	case "delete":
		m.flush()
		want := []status.Outcome{status.OK, status.NotFound, status.Conflict}
		if m.pinned[i] {
			want = want[2:]
		}
		if m.outcome(op, m.s.Delete(ctx, root), want...) != status.Conflict {
			m.gone[i] = true
		}
	case "pin":
		m.flush()
		want := []status.Outcome{status.OK, status.NotFound}
		switch {
		case m.pinned[i]:
			want = want[:1]
		case m.gone[i]:
			want = want[1:]
		}
		if m.outcome(op, m.s.Pin(ctx, root, store.PinOptions{Recursive: i%2 == 0}), want...) == status.OK {
			m.pinned[i] = true
		}
	case "unpin":
		want := status.NotFound
		if m.pinned[i] {
			want = status.OK
		}
		m.outcome(op, m.s.Unpin(ctx, root, ""), want)
		delete(m.pinned, i)
	case "gc", "evict":
		_, err := m.s.Collector().Run(ctx, gc.Options{All: op == "gc"})
		m.outcome(op, err, status.OK)
	case "ingest":
		m.ingest(i)
	case "drop":
		m.outcome(op, m.s.Partials().Remove(ctx, root), status.OK, status.NotFound, status.Conflict)
	case "crash":
		m.crash()
		m.check()
	}
}

func (m *gcModel) get(i int) {
	got, err := storetest.Get(m.t, m.s, b3.Sum(m.content(i)))
	want := []status.Outcome{status.OK, status.NotFound}
	switch {
	case m.pinned[i]:
		want = want[:1]
	case m.gone[i]:
		want = want[1:]
	}
	if m.outcome("get", err, want...) == status.OK && !bytes.Equal(got, m.content(i)) {
		m.r.Fatalf("object %d holds something else", i)
	}
}

// ingest writes a part of an object, or all of it.
func (m *gcModel) ingest(i int) {
	p := m.content(i)
	in, err := m.s.Ingest(m.t.Context(), b3.Sum(p), int64(len(p)))
	if m.outcome("ingest", err, status.OK, status.NoSpace, status.Conflict) != status.OK {
		return
	}
	defer in.Suspend()
	last := rapid.Int64Range(0, 8).Draw(m.r, "groups")
	for _, item := range storetest.Items(m.t, p, int64(len(p))) {
		if !item.IsParent() && item.Group() > last && !item.SizeProved() {
			continue
		}
		if m.outcome("write", in.Write(item), status.OK, status.NoSpace) != status.OK {
			return
		}
	}
	_, err = in.Commit(m.t.Context(), rapid.Bool().Draw(m.r, "deferred"))
	if m.outcome("commit", err, status.OK, status.NoSpace, status.Precondition) == status.OK {
		delete(m.gone, i)
	}
}

// crash goes on from what is on the disk for sure, and perhaps some more.
func (m *gcModel) crash() {
	cfg := vfs.CrashCloneCfg{UnsyncedDataPercent: rapid.IntRange(0, 100).Draw(m.r, "unsynced"),
		RNG: rand.New(rand.NewPCG(rapid.Uint64().Draw(m.r, "seed"), 1))}
	clone := m.fs.CrashClone(cfg)
	m.end()
	m.fs = clone
	m.start()
}

func (m *gcModel) check() {
	m.flush()
	time.Sleep(time.Minute) // what the store does by itself is done
	synctest.Wait()
	for i := range gcModelSize {
		m.get(i)
	}
	ctx := m.t.Context()
	var sum, used meta.Count
	for info, err := range m.s.List(ctx) {
		if err != nil || info.Corrupt {
			m.r.Fatalf("listed is %+v, %v", info, err)
		}
		sum.Objects++
		sum.Bytes += info.Size
		used.Bytes += info.Size + b3.OutboardSize(info.Size)
	}
	for root, err := range storetest.VerifyAll(ctx, m.s) {
		if err != nil {
			m.r.Fatalf("%s: %v", root, err)
		}
	}
	var parts meta.Count
	for part, err := range m.s.Partials().All(ctx) {
		if err != nil {
			m.r.Fatal(err)
		}
		parts.Objects++
		parts.Bytes += part.Stored
	}
	if err := m.s.CheckUsage(); err != nil {
		m.r.Fatal(err)
	}
	st, sp := m.s.Stats(), m.s.Collector().Space()
	if sum != (meta.Count{Objects: st.Objects, Bytes: st.Bytes}) ||
		parts != (meta.Count{Objects: st.PartialObjects, Bytes: st.PartialBytes}) {
		m.r.Fatalf("listed are %+v and %+v partial, stats say %+v", sum, parts, st)
	}
	used.Bytes += parts.Bytes + (parts.Bytes+1023)/1024
	if used.Objects = sum.Objects; sp.Used != used || sp.Used.Bytes > sp.Max.Bytes || st.Leases != 0 {
		m.r.Fatalf("used are %+v, want %+v; %d leases", sp, used, st.Leases)
	}
	pins := 0
	for _, err := range m.s.Pins(ctx) {
		if err != nil {
			m.r.Fatal(err)
		}
		pins++
	}
	if pins != len(m.pinned) {
		m.r.Fatalf("%d pins, want %d", pins, len(m.pinned))
	}
}
