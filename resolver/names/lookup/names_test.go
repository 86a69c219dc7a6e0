package lookup

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"

	"allium/protocols/dht/namestore"
	"allium/protocols/dht/probes"
	"allium/protocols/name"
	"allium/protocols/record"
	"allium/protocols/status"
	"allium/resolver/providers"
)

// zone is the zone of the tests.
func zone(t testing.TB) (crypto.PrivKey, name.Zone) {
	t.Helper()
	key, _, err := crypto.GenerateEd25519Key(bytes.NewReader(make([]byte, 32)))
	if err != nil {
		t.Fatal(err)
	}
	z, err := name.ZoneOf(key.GetPublic())
	if err != nil {
		t.Fatal(err)
	}
	return key, z
}

func named(t testing.TB, label string) name.Name {
	t.Helper()
	_, z := zone(t)
	l, err := name.ParseLabel(label)
	if err != nil {
		t.Fatal(err)
	}
	return name.Name{Label: l, Zone: z}
}

// signed is a record of the zone that lives for a day.
func signed(t testing.TB, label string, seq uint64, value string) name.Signed {
	t.Helper()
	key, _ := zone(t)
	v, err := name.ParseValue(value)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	r, err := name.Sign(key, name.Record{
		Name: named(t, label), Seq: seq, Value: v, TTL: time.Minute,
		NotAfter: now.Add(24 * time.Hour).Truncate(time.Second).UTC(),
	}, now)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const address = "b3:af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"

// network is a Finder that answers after a time, from what it is given.
type network struct {
	took  time.Duration
	stuck bool // it ignores its context
	err   error
	calls atomic.Int64
	fresh atomic.Int64

	mu      sync.Mutex
	records map[name.Name]name.Versions
}

func (f *network) set(records ...name.Signed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.records = map[name.Name]name.Versions{}
	for _, r := range records {
		v, _ := f.records[r.Name].Add(r)
		f.records[r.Name] = v
	}
}

func (f *network) FindName(
	ctx context.Context, n name.Name, fresh bool, _ *probes.Trace,
) (name.Versions, record.Origin, error) {
	f.calls.Add(1)
	if fresh {
		f.fresh.Add(1)
	}
	if f.stuck {
		time.Sleep(f.took)
	} else {
		select {
		case <-time.After(f.took):
		case <-ctx.Done():
			return name.Versions{}, "", ctx.Err()
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.records[n], record.OriginDHT, f.err
}

// tasks is a resolver that runs.
type tasks struct {
	ctx context.Context
	wg  sync.WaitGroup
}

func (t *tasks) Context() context.Context { return t.ctx }

func (t *tasks) Go(f func()) bool {
	if t.ctx.Err() != nil {
		return false
	}
	t.wg.Go(f)
	return true
}

type rig struct {
	*Names
	*network
	tasks *tasks
}

func newRig(t *testing.T) *rig {
	t.Helper()
	f := &network{took: 100 * time.Millisecond}
	ctx, cancel := context.WithCancel(t.Context())
	r := &rig{network: f, tasks: &tasks{ctx: ctx}, Names: New(Config{
		Deadline: 1200 * time.Millisecond, NegativeTTL: 2 * time.Second, Lookups: 2,
	}, Deps{Finder: f, Seen: namestore.NewSeen(false)})}
	t.Cleanup(func() { cancel(); r.tasks.wg.Wait() })
	return r
}

func (r *rig) resolve(t *testing.T, label string, opt Options) (Answer, error) {
	t.Helper()
	return r.Resolve(t.Context(), r.tasks, named(t, label), opt, nil)
}

func TestChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		to := func(label string) string { return named(t, label).String() }
		loop := []name.Signed{signed(t, "loop", 1, to("back")), signed(t, "back", 1, to("loop"))}
		long := []name.Signed{signed(t, "five", 1, address)}
		for i, label := range []string{"four", "three", "two", "one"} {
			long = append(long, signed(t, label, 1, to([]string{"five", "four", "three", "two"}[i])))
		}
		r.set(slices.Concat(loop, long, []name.Signed{
			signed(t, "blog", 1, address+"/a/b"), signed(t, "www", 1, to("blog")), signed(t, "text", 1, "hello"),
			signed(t, "gone", 1, ""), signed(t, "twice", 1, "x"), signed(t, "twice", 1, "y"),
			signed(t, "self", 1, to("self")), signed(t, "dangling", 1, to("nothing")),
		})...)
		for label, want := range map[string]struct {
			value string
			chain int
			err   status.Outcome
		}{
			"blog": {address + "/a/b", 1, status.OK}, "www": {address + "/a/b", 2, status.OK},
			"text": {"hello", 1, status.OK}, "gone": {"", 1, status.Gone}, "twice": {"", 1, status.Equivocation},
			"loop": {"", 2, status.BadRequest}, "self": {"", 1, status.BadRequest}, "nobody": {"", 0, status.NotFound},
			"dangling": {"", 1, status.NotFound}, "two": {address, 4, status.OK}, "one": {"", 4, status.HopExceeded},
		} {
			a, err := r.resolve(t, label, Options{})
			if status.Of(err) != want.err || a.Value.String() != want.value || len(a.Chain) != want.chain {
				t.Errorf("%s: %q by %d records, %v", label, a.Value, len(a.Chain), err)
			}
			if c, ok := r.Cached(r.tasks, named(t, label), 0); ok != (err == nil) || ok && c.Value != a.Value {
				t.Errorf("%s: remembered %t as %q", label, ok, c.Value)
			}
		}
	})
}

// TestTimes: a fresh record is taken from the cache for 80 to 100 % of its TTL, a stale one
// where the caller takes it, and then it is looked up behind the answer.
func TestTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.set(signed(t, "blog", 1, "one"))
		check := func(opt Options, value string, source record.Origin, stale bool, calls int64) {
			t.Helper()
			a, err := r.resolve(t, "blog", opt)
			synctest.Wait() // for a lookup behind the answer to begin
			if err != nil || a.Value.String() != value || a.Source != source ||
				a.Stale != stale || r.calls.Load() != calls {
				t.Errorf("%q from %s, stale %t, %d lookups, %v", a.Value, a.Source, a.Stale, r.calls.Load(), err)
			}
		}
		check(Options{}, "one", record.OriginDHT, false, 1)
		r.set(signed(t, "blog", 2, "two"))
		time.Sleep(47 * time.Second)
		check(Options{}, "one", providers.SourceCache, false, 1)
		time.Sleep(14 * time.Second)
		if a, ok := r.Cached(r.tasks, named(t, "blog"), time.Millisecond); ok {
			t.Errorf("staler than the caller takes: %q", a.Value)
		}
		check(Options{MaxStale: time.Minute}, "one", providers.SourceCache, true, 2)
		time.Sleep(time.Second)
		check(Options{}, "two", providers.SourceCache, false, 2)
		time.Sleep(10 * time.Minute)
		check(Options{MaxStale: time.Minute}, "two", record.OriginDHT, false, 3)
		// Without a wait, too.
		time.Sleep(2 * time.Minute)
		for range 2 { // the second one joins the lookup
			a, ok := r.Cached(r.tasks, named(t, "blog"), time.Hour)
			if !ok || a.Value.String() != "two" || !a.Stale || a.TTL != 0 || a.Age < 2*time.Minute {
				t.Errorf("%t, %+v", ok, a)
			}
		}
		time.Sleep(time.Second)
		if a, ok := r.Cached(r.tasks, named(t, "blog"), time.Hour); !ok || a.Stale || r.calls.Load() != 4 {
			t.Errorf("%t, stale %t, %d lookups", ok, a.Stale, r.calls.Load())
		}
		time.Sleep(time.Hour)
		check(Options{Fresh: true}, "two", record.OriginDHT, false, 5)
		if r.fresh.Load() != 1 {
			t.Error("a fresh answer counts what this node holds")
		}
		// Expired: nobody serves it any more; it is served for as long as the caller allows.
		r.set()
		time.Sleep(25 * time.Hour)
		check(Options{MaxStale: 25 * time.Hour}, "two", providers.SourceCache, true, 6)
		if _, err := r.resolve(t, "blog", Options{}); status.Of(err) != status.Stale {
			t.Errorf("an expired record: %v", err)
		}
		// That there is none is remembered for two seconds.
		before := r.calls.Load()
		for range 3 {
			if _, err := r.resolve(t, "nobody", Options{}); status.Of(err) != status.NotFound {
				t.Error(err)
			}
		}
		time.Sleep(2 * time.Second)
		_, _ = r.resolve(t, "nobody", Options{})
		if n := r.calls.Load() - before; n != 2 {
			t.Errorf("%d lookups of a name without a record", n)
		}
	})
}

// TestNeverBack: an older record never replaces a newer one, whoever returns it.
func TestNeverBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		old := signed(t, "blog", 1, "one")
		two, unknown := signed(t, "blog", 2, "two"), signed(t, "x", 1, "x")
		if !r.Observe(two, false) || r.Observe(old, false) || r.Observe(unknown, true) {
			t.Error("what was observed is not what is known")
		}
		r.set(old)
		r.err = status.Errorf(status.Stale, "the holders are behind")
		time.Sleep(2 * time.Minute)
		if a, err := r.resolve(t, "blog", Options{}); err != nil || a.Value.String() != "two" || a.Stale {
			t.Errorf("what is remembered, and newer than what the holders have: %q, stale %t, %v", a.Value, a.Stale,
				err)
		}
		if _, err := r.resolve(t, "another", Options{}); status.Of(err) != status.Stale {
			t.Errorf("holders that are behind: %v", err)
		}
		r.err = nil
		for _, opt := range []Options{{}, {Fresh: true}, {}} {
			time.Sleep(2 * time.Minute)
			if a, err := r.resolve(t, "blog", opt); err != nil || a.Value.String() != "two" {
				t.Errorf("%q, %v", a.Value, err)
			}
		}
	})
}

// TestSingleFlight: callers of one name share a lookup; one that gives up ends it for nobody. More
// lookups than may wait are busy at once. The deadline holds although the DHT is stuck.
func TestSingleFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.set(signed(t, "blog", 1, address))
		ctx, cancel := context.WithCancel(t.Context())
		var callers sync.WaitGroup
		var ok, gone atomic.Int64
		for i := range 100 {
			ctx := ctx
			if i > 0 {
				ctx = t.Context()
			}
			callers.Go(func() {
				if _, err := r.Resolve(ctx, r.tasks, named(t, "blog"), Options{}, nil); err == nil {
					ok.Add(1)
				} else {
					gone.Add(1)
				}
			})
		}
		synctest.Wait()
		cancel()
		callers.Wait()
		if r.calls.Load() != 1 || ok.Load() != 99 || gone.Load() != 1 {
			t.Errorf("%d lookups, %d answers, %d gave up", r.calls.Load(), ok.Load(), gone.Load())
		}

		r.stuck, r.took = true, time.Minute
		start := time.Now()
		if _, err := r.resolve(t, "stuck", Options{}); status.Of(err) != status.Timeout {
			t.Error(err)
		}
		if took := time.Since(start); took != 1200*time.Millisecond {
			t.Errorf("the deadline took %s", took)
		}
		var busy, late atomic.Int64
		for i := range lookupsWaiting + 102 {
			callers.Go(func() {
				_, err := r.resolve(t, fmt.Sprint("n", i), Options{})
				switch status.Of(err) {
				case status.Busy:
					busy.Add(1)
				case status.Timeout:
					late.Add(1)
				default:
					t.Errorf("caller %d: %v", i, err)
				}
			})
		}
		callers.Wait()
		if busy.Load() < 100 || busy.Load()+late.Load() != lookupsWaiting+102 {
			t.Errorf("%d are busy, %d late", busy.Load(), late.Load())
		}
	})
}

func BenchmarkHit(b *testing.B) {
	cfg := Config{Deadline: time.Second, NegativeTTL: time.Second, Lookups: 1}
	n := New(cfg, Deps{Finder: &network{}, Seen: namestore.NewSeen(false)})
	rec := signed(b, "blog", 1, address)
	n.Observe(rec, false)
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := n.Cached(nil, rec.Name, 0); !ok {
			b.Fatal("not remembered")
		}
	}
}

// TestFollow: records of a followed name are taken up although nobody has asked for it, also when
// it was looked up in vain before, and at most 4,096 names are followed.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		if _, err := r.resolve(t, "blog", Options{}); status.Of(err) != status.NotFound {
			t.Error(err)
		}
		one, two := signed(t, "blog", 1, "one"), signed(t, "blog", 2, "two")
		var releases []func()
		for range 2 {
			release, err := r.Follow(one.Name)
			if err != nil {
				t.Fatal(err)
			}
			releases = append(releases, release)
		}
		if f, left := r.Watched(1); len(f) != 1 || f[0].Followers != 2 || f[0].Name != one.Name || left != 0 {
			t.Errorf("%v and %d more are followed", f, left)
		}
		releases[0]()
		if !r.Observe(one, true) || r.Observe(one, true) || !r.Observe(two, true) {
			t.Error("records of a followed name are not taken up")
		}
		if f, _ := r.Watched(1); len(f) != 1 || f[0].Versions.Seq() != 2 {
			t.Errorf("%v is followed", f)
		}
		if f, left := r.Watched(0); len(f) != 0 || left != 1 {
			t.Errorf("of none, %v and %d more are followed", f, left)
		}
		releases[1]()
		other := signed(t, "other", 1, "x")
		if r.Observe(other, true) {
			t.Error("a name that nobody follows was taken up")
		}
		for range maxFollows {
			if _, err := r.Follow(other.Name); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := r.Follow(other.Name); status.Of(err) != status.Busy {
			t.Errorf("one more: %v", err)
		}
		if !r.Observe(other, true) {
			t.Error("a followed name was not taken up")
		}
	})
}

// TestReplay: gossip brings an older record of a followed name than the node has verified before. The node
// remembers only the number of that, as after a restart.
func TestReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		one, two, three := signed(t, "blog", 1, "one"), signed(t, "blog", 2, "two"), signed(t, "blog", 3, "three")
		v, _ := name.Versions{}.Add(two)
		release, err := r.Follow(one.Name)
		if err != nil || r.seen.Raise(v) != nil {
			t.Fatal(err)
		}
		defer release()
		if r.Observe(one, true) || r.Observe(one, false) {
			t.Error("an older record is news")
		}
		if f, _ := r.Watched(1); f[0].Versions.Seq() != 0 {
			t.Errorf("%v is followed", f)
		}
		if !r.Observe(three, true) || r.seen.Seq(one.Name) != 3 {
			t.Errorf("a newer record is no news; the highest number is %d", r.seen.Seq(one.Name))
		}
		// Both the holders and this node remember an older record than the floor.
		v, _ = name.Versions{}.Add(signed(t, "blog", 4, "four"))
		if err := r.seen.Raise(v); err != nil {
			t.Fatal(err)
		}
		r.err = status.Errorf(status.Stale, "the holders are behind")
		time.Sleep(2 * time.Minute)
		if a, err := r.resolve(t, "blog", Options{}); status.Of(err) != status.Stale {
			t.Errorf("%q, %v", a.Value, err)
		}
	})
}
