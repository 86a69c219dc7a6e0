package dht

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	ds "github.com/ipfs/go-datastore"
	"github.com/ipfs/go-datastore/query"
	dssync "github.com/ipfs/go-datastore/sync"
	pebbleds "github.com/ipfs/go-ds-pebble"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"pgregory.net/rapid"

	"allium/internal/env"
	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/dht/messages"
	"allium/protocols/dht/persist"
	"allium/protocols/status"
)

func inMemory() ds.Batching { return dssync.MutexWrap(ds.NewMapDatastore()) }

// testVerifier has as many places as a test needs.
func testVerifier() *verifier {
	return &verifier{now: time.Now, gate: (*limits.Registry)(nil).NewGate(limits.Spec{Name: "verify"}, 4, 1024)}
}

// persistDeps are those of a persister whose datastore is never replaced.
func persistDeps(t testing.TB) persist.Deps {
	t.Helper()
	m, err := newMetrics(nil)
	if err != nil {
		t.Fatal(err)
	}
	return persist.Deps{
		Env:          env.Env{Log: slog.New(slog.DiscardHandler)},
		Replacements: func() uint64 { return 0 }, MayExpire: func() bool { return true },
		Count: m.persisted,
	}
}

// newPersisted is a store with room for total records that d keeps.
func newPersisted(t testing.TB, d ds.Batching, total int) (*providerStore, *persist.Persister[recordKey]) {
	t.Helper()
	p := newProviderStore(20, total, total)
	return p, newPersister(d, p, testVerifier(), persistDeps(t))
}

// inBackground runs w until stop.
func inBackground(t testing.TB, w *persist.Persister[recordKey]) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { w.Run(ctx); close(ended) }()
	return func() { cancel(); <-ended }
}

// loadAll reads d into a new store, as the start does.
func loadAll(t testing.TB, d ds.Batching, total int) *providerStore {
	t.Helper()
	p, w := newPersisted(t, d, total)
	for !w.Scan(t.Context()) {
	}
	w.Flush(t.Context())
	return p
}

// contents is what a store holds.
func contents(p *providerStore) map[recordKey]uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := map[recordKey]uint64{}
	for r, hs := range p.keys {
		for _, h := range hs {
			all[recordKey{r, h.provider}] = h.seq
		}
	}
	return all
}

func entries(t testing.TB, d ds.Batching) map[string][]byte {
	t.Helper()
	res, err := d.Query(t.Context(), query.Query{})
	if err != nil {
		t.Fatal(err)
	}
	all, err := res.Rest()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string][]byte{}
	for _, e := range all {
		values[e.Key] = e.Value
	}
	return values
}

// TestPersistRestart: records live over a restart, all of their parts, within a
// second of being put; what expired meanwhile is deleted.
func TestPersistRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := inMemory()
		p, w := newPersisted(t, d, 5000)
		kill, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { w.Run(kill); close(ended) }()
		defer func() { cancel(); <-ended }() // not before the end: nothing but the flushes of each second counts
		me := newIdentity(t)
		for i := range 1200 {
			if err := p.put(me.own(t, root(fmt.Sprint(i)), uint64(i), time.Now().Add(time.Hour)),
				time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		short := newIdentity(t)
		if err := p.put(short.own(t, root("short"), 1, time.Now().Add(3*time.Second)), time.Now()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(1100 * time.Millisecond)
		if n := len(entries(t, d)); n != 1201 {
			t.Fatalf("%d records on disk after a second", n)
		}
		time.Sleep(10 * time.Second)

		again, w2 := newPersisted(t, d, 5000)
		stop := inBackground(t, w2)
		defer stop()
		time.Sleep(5 * time.Second) // 512 a second
		if n := again.len(); n != 1200 {
			t.Errorf("%d records restored", n)
		}
		got := again.get(root("7"), 1, time.Now())
		if len(got) != 1 || got[0].Seq != 7 || len(got[0].Addrs.Addrs) != 1 {
			t.Fatalf("restored: %+v", got)
		}
		if _, err := messages.Open(got[0].Envelope, got[0].PeerRecord, root("7"), time.Now()); err != nil {
			t.Error(err)
		}
		if n := len(entries(t, d)); n != 1200 {
			t.Errorf("%d records on disk", n)
		}
	})
}

// TestPersistRefuses: what does not verify is not restored, and is deleted.
func TestPersistRefuses(t *testing.T) {
	me, other := newIdentity(t), newIdentity(t)
	end := time.Now().Add(time.Hour)
	value := func(s messages.Sealed) []byte {
		p, err := storedCodec.Marshal(messages.Provider{Envelope: s.Envelope, PeerRecord: s.PeerRecord})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	good := me.seal(t, root("x"), 1, end)
	flipped := value(good)
	flipped[len(flipped)/4] ^= 1
	at := func(r b3.Root, id peer.ID) string { return recordKey{r, id}.datastoreKey().String() }
	for name, e := range map[string]struct {
		key   string
		value []byte
	}{
		"empty":          {at(root("x"), me.id), nil},
		"cut":            {at(root("x"), me.id), value(good)[:100]},
		"a bit":          {at(root("x"), me.id), flipped},
		"other root":     {at(root("y"), me.id), value(good)},
		"other provider": {at(root("x"), other.id), value(good)},
		"expired":        {at(root("x"), me.id), value(me.seal(t, root("x"), 1, time.Now().Add(-time.Minute)))},
		"future":         {at(root("x"), me.id), value(me.seal(t, root("x"), 1, time.Now().Add(48*time.Hour)))},
		"no slot":        {"/junk", value(good)},
		"no peer":        {"/" + root("x").Hex() + "/junk", value(good)},
		"upper case":     {"/" + strings.ToUpper(root("x").Hex()) + "/" + me.id.String(), value(good)},
		"deeper":         {at(root("x"), me.id) + "/more", value(good)},
	} {
		t.Run(name, func(t *testing.T) {
			d := inMemory()
			for key, v := range map[string][]byte{e.key: e.value, at(root("z"),
				me.id): value(me.seal(t, root("z"), 1, end))} {
				if err := d.Put(t.Context(), ds.RawKey(key), v); err != nil {
					t.Fatal(err)
				}
			}
			p := loadAll(t, d, 10)
			if got := contents(p); len(got) != 1 || got[recordKey{root("z"), me.id}] != 1 {
				t.Errorf("restored %v", got)
			}
			if got := entries(t, d); len(got) != 1 || got[at(root("z"), me.id)] == nil {
				t.Errorf("%d left on disk", len(got))
			}
		})
	}
}

// TestPersistNewerWins: what was put while the old records are still read back
// is neither replaced nor deleted.
func TestPersistNewerWins(t *testing.T) {
	me, d := newIdentity(t), inMemory()
	p, w := newPersisted(t, d, 10)
	end := time.Now().Add(time.Hour)
	if err := p.put(me.own(t, root("x"), 1, end), time.Now()); err != nil {
		t.Fatal(err)
	}
	w.Flush(t.Context())

	next, w := newPersisted(t, d, 10)
	if err := next.put(me.own(t, root("x"), 2, end), time.Now()); err != nil {
		t.Fatal(err)
	}
	for !w.Scan(t.Context()) {
	}
	w.Flush(t.Context())
	if got := contents(next)[recordKey{root("x"), me.id}]; got != 2 {
		t.Errorf("seq %d is held", got)
	}
	if got := contents(loadAll(t, d, 10))[recordKey{root("x"), me.id}]; got != 2 {
		t.Errorf("seq %d is on disk", got)
	}
}

// TestPersistBounds: the bounds of RAM hold for what is restored, and the rest
// is deleted.
func TestPersistBounds(t *testing.T) {
	me, d := newIdentity(t), inMemory()
	p, w := newPersisted(t, d, 10)
	for i := range 10 {
		if err := p.put(me.own(t, root(fmt.Sprint(i)), 1, time.Now().Add(time.Hour)), time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	w.Flush(t.Context())
	if got := loadAll(t, d, 4).len(); got != 4 {
		t.Errorf("%d records restored into room for 4", got)
	}
	if got := len(entries(t, d)); got != 4 {
		t.Errorf("%d records on disk", got)
	}
}

// TestPersistInvariants: after a flush and a restart a store holds what it held,
// whatever was put and expired before.
func TestPersistInvariants(t *testing.T) {
	ids := []identity{newIdentity(t), newIdentity(t), newIdentity(t)}
	rapid.Check(t, func(rt *rapid.T) {
		d := inMemory()
		p, w := newPersisted(t, d, rapid.IntRange(1, 8).Draw(rt, "total"))
		now := time.Now()
		for range rapid.IntRange(0, 20).Draw(rt, "steps") {
			switch rapid.IntRange(0, 5).Draw(rt, "step") {
			case 0:
				w.Flush(t.Context())
			case 1:
				p.sweep(now.Add(90 * time.Minute))
			default:
				id := rapid.SampledFrom(ids).Draw(rt, "provider")
				key := root(fmt.Sprint(rapid.IntRange(0, 4).Draw(rt, "key")))
				end := now.Add(time.Duration(rapid.IntRange(1, 2).Draw(rt, "life")) * time.Hour)
				_ = p.put(id.own(t, key, rapid.Uint64Range(0, 5).Draw(rt, "seq"), end), now)
			}
		}
		w.Flush(t.Context())
		want := contents(p)
		if got := len(entries(t, d)); got != len(want) {
			rt.Fatalf("%d records on disk, %d in RAM", got, len(want))
		}
		if got := contents(loadAll(t, d, 8)); !maps.Equal(got, want) {
			rt.Fatalf("restored %v, held %v", got, want)
		}
	})
}

// TestDirtySetDropsOldest: without room the oldest change goes, counted; a
// deletion lost so is made up for within the hour.
func TestDirtySetDropsOldest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		me, d := newIdentity(t), inMemory()
		p, w := newPersisted(t, d, 100)
		p.changes = persist.NewChangesOf[recordKey](3)
		for i := range 5 {
			ends := time.Now().Add(time.Duration(i+1) * 10 * time.Minute)
			if err := p.put(me.own(t, root(fmt.Sprint(i)), 1, ends), time.Now()); err != nil {
				t.Fatal(err)
			}
			if i == 2 {
				w.Flush(t.Context())
			}
		}
		p.MarkChanged(recordKey{root("2"), me.id}, recordKey{root("4"), me.id}) // 3, 4, 2
		p.MarkChanged(recordKey{root("1"), me.id})                              // 3 is dropped
		w.Flush(t.Context())
		on := entries(t, d)
		for i, want := range []bool{true, true, true, false, true} {
			if got := on[recordKey{root(fmt.Sprint(i)), me.id}.datastoreKey().String()] != nil; got != want {
				t.Errorf("%d on disk: %v", i, got)
			}
		}
		if got := testutil.ToFloat64(w.Count.WithLabelValues("dropped")); got != 1 {
			t.Errorf("%v changes dropped", got)
		}

		stop := inBackground(t, w)
		defer stop()
		time.Sleep(55 * time.Minute)
		most := func(n int) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.changes = persist.NewChangesOf[recordKey](n)
		}
		most(1)
		p.sweep(time.Now()) // all have expired; one deletion is noted
		time.Sleep(3 * time.Second)
		// The order of a sweep is random: the one noted may be 3, which is not there.
		if got := len(entries(t, d)); got != 3 && got != 4 {
			t.Errorf("%d records left before the tidying", got)
		}
		most(persist.MaxChanges)
		time.Sleep(10 * time.Minute)
		if got := len(entries(t, d)); got != 0 {
			t.Errorf("%d records left after it", got)
		}
	})
}

// failingDS fails while it is told to.
type failingDS struct {
	ds.Batching
	fail atomic.Bool
}

func (f *failingDS) Batch(ctx context.Context) (ds.Batch, error) {
	if f.fail.Load() {
		return nil, errors.New("no space left")
	}
	return f.Batching.Batch(ctx)
}

// TestPersistDiskFull: what could not be written is written later; one warning
// for each time.
func TestPersistDiskFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		me, d := newIdentity(t), &failingDS{Batching: inMemory()}
		p, w := newPersisted(t, d, 10)
		var log bytes.Buffer
		w.Log = slog.New(slog.NewTextHandler(&log, nil))
		stop := inBackground(t, w)
		for i := range 2 {
			d.fail.Store(true)
			if err := p.put(me.own(t, root(fmt.Sprint(i)), 1, time.Now().Add(time.Hour)), time.Now()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second)
			d.fail.Store(false)
			time.Sleep(2 * time.Second)
			if got := len(entries(t, d)); got != i+1 {
				t.Errorf("%d records on disk", got)
			}
		}
		stop()
		if got := strings.Count(log.String(), "cannot store"); got != 2 {
			t.Errorf("%d warnings", got)
		}
	})
}

// fullDS has no room for what is put, and counts what is deleted.
type fullDS struct {
	ds.Batching
	full    atomic.Bool
	deletes atomic.Int64
}

func (f *fullDS) Batch(ctx context.Context) (ds.Batch, error) {
	b, err := f.Batching.Batch(ctx)
	return &fullBatch{Batch: b, of: f}, err
}

type fullBatch struct {
	ds.Batch
	of      *fullDS
	refused bool
}

func (b *fullBatch) Put(ctx context.Context, k ds.Key, value []byte) error {
	if b.refused = b.of.full.Load(); b.refused {
		return nil
	}
	return b.Batch.Put(ctx, k, value)
}

func (b *fullBatch) Delete(ctx context.Context, k ds.Key) error {
	b.of.deletes.Add(1)
	return b.Batch.Delete(ctx, k)
}

func (b *fullBatch) Commit(ctx context.Context) error {
	if err := b.Batch.Commit(ctx); err != nil || !b.refused {
		return err
	}
	return status.Errorf(status.NoSpace, "the records have reached their bound")
}

// TestPersistNoRoom: a datastore that has reached its bound is not written to
// every second; when it has room again, what waited is written.
func TestPersistNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		me, d := newIdentity(t), &fullDS{Batching: inMemory()}
		d.full.Store(true)
		p, w := newPersisted(t, d, 10)
		stop := inBackground(t, w)
		defer stop()
		if err := p.put(me.own(t, root("x"), 1, time.Now().Add(time.Hour)), time.Now()); err != nil {
			t.Fatal(err)
		}
		p.MarkChanged(recordKey{root("gone"), me.id})
		time.Sleep(5 * time.Minute)
		if n := d.deletes.Load(); n == 0 || n > 10 {
			t.Errorf("one record was deleted %d times in five minutes", n)
		}
		d.full.Store(false)
		time.Sleep(time.Minute)
		if got := len(entries(t, d)); got != 1 {
			t.Errorf("%d records on disk when there is room", got)
		}
	})
}

// TestPersistNothing: without a datastore there is nothing to do or to keep.
func TestPersistNothing(t *testing.T) {
	p, w := newPersisted(t, nil, 10)
	w.Run(t.Context())
	if p.changes != nil {
		t.Error("changes are collected for nobody")
	}
	if err := p.put(plain("a", root("x"), 1, time.Now().Add(time.Hour)), time.Now()); err != nil {
		t.Error(err)
	}
}

// TestPersistStopFlushes: the end of run writes what the last second brought.
func TestPersistStopFlushes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		me, d := newIdentity(t), inMemory()
		p, w := newPersisted(t, d, 10)
		stop := inBackground(t, w)
		time.Sleep(1500 * time.Millisecond)
		if err := p.put(me.own(t, root("x"), 1, time.Now().Add(time.Hour)), time.Now()); err != nil {
			t.Fatal(err)
		}
		stop()
		if got := len(entries(t, d)); got != 1 {
			t.Errorf("%d records on disk", got)
		}
	})
}

// cloningDS copies the disk when a batch is committed and when it is synced.
type cloningDS struct {
	ds.Batching
	clone func(when string)
}

type cloningBatch struct {
	ds.Batch
	clone func(when string)
}

func (c *cloningDS) Batch(ctx context.Context) (ds.Batch, error) {
	b, err := c.Batching.Batch(ctx)
	return &cloningBatch{b, c.clone}, err
}

func (c *cloningBatch) Commit(ctx context.Context) error {
	c.clone("before the commit")
	defer c.clone("after the commit")
	return c.Batch.Commit(ctx)
}

func (c *cloningDS) Sync(ctx context.Context, k ds.Key) error {
	err := c.Batching.Sync(ctx, k)
	c.clone("after the sync")
	return err
}

// TestPersistCrash: at every moment of a flush the disk has what it had before
// or what it has after, and after the sync the latter.
func TestPersistCrash(t *testing.T) {
	disk := vfs.NewCrashableMem()
	open := func(fs vfs.FS) *pebbleds.Datastore {
		d, err := pebbleds.NewDatastore("records", pebbleds.WithPebbleOpts(&pebble.Options{FS: fs}))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	base := open(disk)
	type crash struct {
		fs    vfs.FS
		when  string
		round int
	}
	var crashes []crash
	round := 0
	rng := rand.New(rand.NewPCG(1, 2))
	d := &cloningDS{Batching: base, clone: func(when string) {
		for _, part := range []int{0, 30, 70} {
			crashes = append(
				crashes,
				crash{disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: part, RNG: rng}), when, round},
			)
		}
	}}
	p, w := newPersisted(t, d, 1000)
	me := newIdentity(t)
	var states []map[recordKey]uint64
	states = append(states, contents(p))
	for ; round < 6; round++ {
		for i := range 50 {
			key := root(fmt.Sprint(i % 30 * (round + 1)))
			if err := p.put(me.own(t, key, uint64(round*100+i), time.Now().Add(time.Hour)), time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		p.mu.Lock()
		for r := range p.keys { // some are dropped
			p.drop(p.keys[r][0])
			break
		}
		p.mu.Unlock()
		states = append(states, contents(p))
		w.Flush(t.Context())
	}
	if err := base.Close(); err != nil {
		t.Fatal(err)
	}
	if len(crashes) != 6*3*3 {
		t.Fatalf("%d crashes", len(crashes))
	}
	for _, c := range crashes {
		d := open(c.fs)
		got := contents(loadAll(t, d, 1000))
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		before, after := maps.Equal(got, states[c.round]), maps.Equal(got, states[c.round+1])
		if !after && (!before || c.when == "after the sync") {
			t.Errorf(
				"round %d, %s: %d records, neither the %d before nor the %d after",
				c.round,
				c.when,
				len(got),
				len(states[c.round]),
				len(states[c.round+1]),
			)
		}
	}
}

func FuzzParseSlot(f *testing.F) {
	f.Add(recordKey{root("x"), fixedIdentity(f).id}.datastoreKey().String())
	f.Add("/")
	f.Add("//")
	f.Add("/" + root("x").Hex())
	f.Add("/" + root("x").Hex() + "/Qm")
	f.Fuzz(func(t *testing.T, key string) {
		s, err := parseRecordKey(key)
		if err == nil && s.datastoreKey().String() != key {
			t.Fatalf("%q is read as %q", key, s.datastoreKey())
		}
	})
}

// FuzzPersisted: nothing that is on disk is taken but a record that verifies.
func FuzzPersisted(f *testing.F) {
	me := fixedIdentity(f)
	good := me.seal(f, root("x"), 1, time.Now().Add(time.Hour))
	value, err := storedCodec.Marshal(messages.Provider{Envelope: good.Envelope, PeerRecord: good.PeerRecord})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(value)
	f.Add(value[:len(value)-1])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, value []byte) {
		d := inMemory()
		p, w := newPersisted(t, d, 10)
		at := recordKey{root("x"), me.id}
		if err := d.Put(t.Context(), at.datastoreKey(), value); err != nil {
			t.Fatal(err)
		}
		for !w.Scan(t.Context()) {
		}
		for _, s := range p.get(at.root, 1, time.Now()) {
			if _, err := messages.Open(s.Envelope, s.PeerRecord, at.root, time.Now()); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// BenchmarkPersistPut is a put with RAM alone, with changes collected, and with
// the writer at work on Pebble.
func BenchmarkPersistPut(b *testing.B) {
	now := time.Now()
	recs := make([]sourced, 100_000)
	for i := range recs {
		recs[i] = plain("a", root(fmt.Sprint(i)), 1, now.Add(time.Hour))
		recs[i].Envelope, recs[i].PeerRecord = make([]byte, 216), make([]byte, 214)
	}
	put := func(b *testing.B, p *providerStore) {
		for i := 0; b.Loop(); i++ {
			if err := p.put(recs[i%len(recs)], now); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("off", func(b *testing.B) { p, _ := newPersisted(b, nil, 100_000); put(b, p) })
	b.Run("collected", func(b *testing.B) { p, _ := newPersisted(b, inMemory(), 100_000); put(b, p) })
	b.Run("written", func(b *testing.B) {
		d, err := pebbleds.NewDatastore(b.TempDir())
		if err != nil {
			b.Fatal(err)
		}
		defer d.Close()
		p, w := newPersisted(b, d, 100_000)
		stop := inBackground(b, w)
		defer stop()
		put(b, p)
	})
}
