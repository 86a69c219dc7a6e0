package trace

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"allium/internal/env"
	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// keyOf is the key of some object.
func keyOf(i int) Key { return Key{Root: b3.Sum(fmt.Append(nil, i))} }

var errNobody = status.Errorf(status.NotFound, "no provider found")

func TestParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Deps{})
		end := func(kind Kind, took time.Duration, err error) *Lookup {
			l := r.Begin(kind, keyOf(1), 0)
			time.Sleep(took)
			l.End(err)
			return l
		}
		for _, tc := range []struct {
			name string
			l    *Lookup
			want *part // nil: dropped
		}{
			{"done", end(Fetch, time.Millisecond, nil), r.ordinary},
			{"failed", end(Fetch, time.Millisecond, errNobody), r.failed},
			{"slow", end(Fetch, 2*time.Second, nil), r.failed},
			{"refused", end(Open, time.Millisecond, status.Errorf(status.Busy, "full")), r.ordinary},
			{"abandoned", end(Open, time.Millisecond, context.Canceled), nil},
			{"abandoned late", end(Open, 2*time.Second, context.Canceled), r.failed},
		} {
			got := (*part)(nil)
			for _, p := range []*part{r.failed, r.ordinary} {
				for _, l := range p.all() {
					if l == tc.l {
						got = p
					}
				}
			}
			if got != tc.want {
				t.Errorf("%s: it is in another part", tc.name)
			}
			if _, ok := r.Get(tc.l.ID()); ok != (tc.want != nil) {
				t.Errorf("%s: found is %t", tc.name, ok)
			}
		}
		checkIdle(t, r)
	})
}

// A large object may take longer than a small one, and a reader may take its time.
func TestSlow(t *testing.T) {
	for _, tc := range []struct {
		ready, took    time.Duration
		bytes          int64
		byReader, want bool
	}{
		{0, time.Second, 0, false, false},
		{0, time.Second + 1, 0, false, true},
		{0, time.Second + 1, 0, true, true},
		{time.Second + 1, time.Hour, 0, true, true},
		{time.Second, time.Hour, 0, true, false},
		{time.Second, time.Hour, 0, false, true},
		{time.Second, 11 * time.Second, 10 << 20, false, false},
		{time.Second, 11*time.Second + 1, 10 << 20, false, true},
	} {
		rec := Record{Head: Head{Ready: tc.ready, Took: tc.took}, Bytes: tc.bytes}
		if got := rec.slow(tc.byReader); got != tc.want {
			t.Errorf("%+v: got %t", tc, got)
		}
	}
}

// checkIdle checks that no lookup is recorded as running.
func checkIdle(t *testing.T, r *Ring) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if n, used := len(r.active), r.running.used.Load(); n != 0 || used != 0 {
		t.Errorf("%d lookups run, with %d bytes", n, used)
	}
}

func TestHitsDoNotPushOutFailures(t *testing.T) {
	r := New(Deps{})
	l := r.Begin(Fetch, keyOf(0), 0)
	l.End(errNobody)
	var last status.LookupID
	for i := range 100_000 {
		last = r.Hit(Open, keyOf(i%7), Store, time.Microsecond)
	}
	if _, ok := r.Get(l.ID()); !ok {
		t.Error("the failure is gone")
	}
	if rec, ok := r.Get(last); !ok || rec.Steps[0].Source != Store || rec.Kind != Open {
		t.Errorf("the last hit is %+v, %t", rec, ok)
	}
	if n := r.hits.n.Load(); n != hitEntries {
		t.Errorf("%d hits are kept", n)
	}
	latest := r.Latest(keyOf(0), 5)
	if len(latest) != 5 {
		t.Fatalf("got %d lookups", len(latest))
	}
	for i, rec := range latest[1:] {
		if rec.Start.After(latest[i].Start) {
			t.Error("a later lookup follows an earlier one")
		}
	}
	if n := testing.AllocsPerRun(1000, func() { r.Hit(Open, keyOf0, Store, time.Microsecond) }); n != 0 {
		t.Errorf("a hit costs %v allocations", n)
	}
}

var keyOf0 = keyOf(0)

func TestRunningLookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Deps{})
		l := r.Begin(Open, keyOf(3), time.Minute)
		l.Call()
		l.Peer("p", Gossip)
		time.Sleep(time.Second)
		asked := time.Now()
		time.Sleep(time.Second)
		l.Span("p", Span{Sent: time.Millisecond, First: 100 * time.Millisecond, Bytes: 5}, asked, nil)
		rec, ok := r.Get(l.ID())
		if !ok || !rec.Running || rec.Took != 2*time.Second || rec.Ready != 1100*time.Millisecond || rec.Bytes != 5 {
			t.Fatalf("got %+v, %t", rec, ok)
		}
		if s := rec.Peers[0].Spans[0]; s.At != time.Second || s.Took != time.Second {
			t.Errorf("got %+v", s)
		}
		for range 100 {
			l.Span("p", Span{Bytes: 1}, time.Now(), nil)
		}
		if rec.Peers[0].Asked != 1 || len(rec.Peers[0].Spans) != 1 {
			t.Error("the copy of a running lookup has changed")
		}
		l.End(nil)
		l.Step(Step{Source: Store}) // too late
		rec, _ = r.Get(l.ID())
		p := rec.Peers[0]
		if rec.Running || len(rec.Steps) != 0 || p.Asked != 101 || p.Bytes != 105 {
			t.Errorf("got %+v", rec)
		}
		if len(p.Spans) != firstSpans+latestSpans || p.Omitted != 101-len(p.Spans) || p.Spans[0].Bytes != 5 {
			t.Errorf("%d spans, %d left out", len(p.Spans), p.Omitted)
		}
		checkIdle(t, r)
	})
}

// A fault of one caller decides how a lookup ends that others used to the end.
func TestFault(t *testing.T) {
	r := New(Deps{})
	l := r.Begin(Open, keyOf(3), 0)
	l.Fault(errNobody)
	l.Fault(errors.New("later"))
	l.End(nil)
	if rec, _ := r.Get(l.ID()); rec.Outcome != status.NotFound || rec.Message != errNobody.Error() {
		t.Errorf("got %s, %q", rec.Outcome, rec.Message)
	}
}

func TestSharedSearch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Deps{})
		first, second := r.Begin(Open, keyOf(1), 0), r.Begin(Fetch, keyOf(1), 0)
		s := NewSearch(keyOf(1), first)
		first.Search(s, false)
		second.Search(s, true)
		time.Sleep(time.Second)
		first.End(nil)
		time.Sleep(time.Second)
		s.Walked(Walk{End: "satisfied", Probes: make([]Probe, maxProbes+9)})
		s.End(3, nil)
		s.End(4, nil)
		second.End(nil)
		rec, _ := r.Get(first.ID())
		if got := rec.Searches[0]; !got.Running || got.Joined || got.Took != time.Second {
			t.Errorf("the search that had not ended is %+v", got)
		}
		rec, _ = r.Get(second.ID())
		got := rec.Searches[0]
		if got.Running || !got.Joined || len(got.Walk.Probes) != maxProbes || got.Walk.Omitted != 9 {
			t.Errorf("the search is %+v", got)
		}
		checkIdle(t, r)
	})
}

// Whatever lookups do, no bound is exceeded, and what is missing is counted.
func TestBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		registry := limits.NewRegistry(nil)
		r := New(Deps{Env: env.Env{Metrics: prometheus.NewRegistry(), Limits: registry}})
		n := rapid.IntRange(1, 300).Draw(t, "lookups")
		detail := rapid.IntRange(0, 120).Draw(t, "details")
		long := strings.Repeat("ä", rapid.IntRange(0, 400).Draw(t, "text"))
		failing := rapid.Bool().Draw(t, "failing")
		open := rapid.IntRange(1, 40).Draw(t, "running at once")
		var running []*Lookup
		for i := range n {
			l := r.Begin(Fetch, Key{Name: long}, 0)
			for k := range detail {
				id := peer.ID(fmt.Sprint("peer", k))
				l.Step(Step{Source: DHT, Note: long})
				l.Peer(id, DHT)
				for range k % 20 {
					l.Span(id, Span{Bytes: 1}, time.Now(), errors.New(long))
				}
				l.GiveUp(id, errors.New(long))
				l.Failure(Failure{}, errors.New(long))
				s := NewSearch(Key{}, l)
				s.Walked(Walk{Probes: make([]Probe, k)})
				if k%3 > 0 {
					s.End(k, nil)
				}
				l.Search(s, k%2 == 0)
			}
			if l.draft.size > maxBytes {
				t.Fatalf("lookup %d has %d bytes", i, l.draft.size)
			}
			rec := l.record()
			if l.draft.ring != nil {
				checkRecord(t, &rec, detail)
			} else if len(rec.Steps) > 0 {
				t.Fatal("an unrecorded lookup has steps")
			}
			if running = append(running, l); len(running) >= open {
				for _, l := range running {
					if err := errors.New(long); failing {
						l.End(err)
					} else {
						l.End(nil)
					}
				}
				running = nil
			}
		}
		for _, info := range registry.Snapshot() {
			if info.Current > info.Capacity || info.Peak > info.Capacity {
				t.Fatalf("%s: %d and at most %d of %d", info.Name, info.Current, info.Peak, info.Capacity)
			}
		}
		for _, p := range []*part{r.failed, r.ordinary} {
			var sum int
			for _, e := range p.records {
				sum += e.size
			}
			if p.n > p.entries || sum > p.most || int64(sum) != p.used.Load() {
				t.Fatalf("%d entries, %d bytes, counted %d", p.n, sum, p.used.Load())
			}
		}
	})
}

// checkRecord checks the bounds of one record with so many details.
func checkRecord(t *rapid.T, rec *Record, detail int) {
	if len(rec.Steps)+rec.Omitted.Steps != detail || len(rec.Peers)+rec.Omitted.Peers != detail ||
		len(rec.Searches)+rec.Omitted.Searches != detail {
		t.Fatalf("details are lost: %+v", rec.Omitted)
	}
	if len(rec.Steps) > maxSteps || len(rec.Peers) > maxPeers || len(rec.Searches) > maxSearches {
		t.Fatal("a list is too long")
	}
	for _, s := range rec.Steps {
		if len(s.Note) > maxText {
			t.Fatalf("a note of %d bytes", len(s.Note))
		}
	}
	for _, p := range rec.Peers {
		if len(p.Spans) > firstSpans+latestSpans || p.Asked != len(p.Spans)+p.Omitted {
			t.Fatalf("%d spans, %d left out of %d", len(p.Spans), p.Omitted, p.Asked)
		}
	}
	if len(rec.Key.Name) > MaxName {
		t.Fatalf("a name of %d bytes", len(rec.Key.Name))
	}
}

func TestTooManyRunning(t *testing.T) {
	r := New(Deps{})
	var all []*Lookup
	for i := range runningEntries + 10 {
		l := r.Begin(Fetch, keyOf(i), 0)
		if l.ID() == 0 {
			t.Fatal("no ID")
		}
		all = append(all, l)
	}
	if n := len(r.active); n != runningEntries {
		t.Errorf("%d are listed", n)
	}
	for _, l := range all {
		l.End(errNobody)
	}
	checkIdle(t, r)
	if n := r.failed.count(); n != failedEntries {
		t.Errorf("%d are kept", n)
	}
}

// Without a ring lookups have IDs, and errors get them.
func TestWithoutRing(t *testing.T) {
	var r *Ring
	l := r.Begin(Fetch, keyOf(0), 0)
	l.Call()
	l.Step(Step{})
	l.Peer("p", DHT)
	l.Search(NewSearch(Key{}, l), false)
	l.End(nil)
	if l.ID() == 0 || r.Hit(Open, keyOf(0), Store, 0) == 0 {
		t.Error("no ID")
	}
	if err := r.Fail(Open, keyOf(0), time.Now(), Store, errNobody); status.LookupOf(err) == "" {
		t.Error("the error names no lookup")
	}
	if _, ok := r.Get(l.ID()); ok || r.Latest(keyOf(0), 3) != nil {
		t.Error("something was recorded")
	}
	(*Lookup)(nil).Step(Step{})
	(*ActiveSearch)(nil).End(0, nil)
}

func BenchmarkHit(b *testing.B) {
	r := New(Deps{})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			r.Hit(Open, keyOf0, Store, time.Microsecond)
		}
	})
}

// BenchmarkLookup is the record of a fetch of one small object.
func BenchmarkLookup(b *testing.B) {
	r := New(Deps{})
	b.ReportAllocs()
	for b.Loop() {
		l := r.Begin(Fetch, keyOf0, 0)
		l.Call()
		l.Step(Step{Source: Store, Verdict: Miss})
		l.Step(Step{Source: Gossip, Verdict: Miss})
		l.Peer("p", DHT)
		l.Span("p", Span{Bytes: 100}, time.Now(), nil)
		l.End(nil)
	}
}

// TestPart: what a lookup led to is found by it, also among the hits, and while it runs.
func TestPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Deps{})
		of := r.Begin(Name, Key{Name: "blog.k51"}, 0)
		of.End(nil)
		time.Sleep(time.Second)
		r.Begin(Open, keyOf(1), 0).End(nil) // of no other
		hit := r.HitUnder(of.ID(), Open, keyOf(1), Store, 0)
		time.Sleep(time.Second)
		failed := r.BeginUnder(Parent{ID: of.ID()}, Open, keyOf(1), 0)
		failed.End(errNobody)
		time.Sleep(time.Second)
		running := r.BeginUnder(Parent{ID: of.ID()}, Providers, keyOf(1), 0)
		var got []status.LookupID
		for _, rec := range r.Parts(of.ID(), 5) {
			if rec.Parent != of.ID() {
				t.Errorf("%s is a part of %s", rec.ID, rec.Parent)
			}
			got = append(got, rec.ID)
		}
		if want := []status.LookupID{running.ID(), failed.ID(), hit}; !slices.Equal(got, want) {
			t.Errorf("parts %v, want %v", got, want)
		}
		if n := len(r.Parts(of.ID(), 2)); n != 2 || len(r.Parts(0, 5)) != 0 {
			t.Errorf("%d parts of at most 2", n)
		}
		running.End(nil)
	})
}

// TestRecent: the latest lookups are those that asked somebody, and running ones are among them.
func TestRecent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Deps{})
		var ids []status.LookupID
		for i := range 4 {
			l := r.Begin(Fetch, keyOf(i), 0)
			time.Sleep(time.Second)
			ids = append(ids, l.ID())
			r.Hit(Open, keyOf(i), Store, time.Millisecond)
			if i < 2 {
				l.End(nil)
			} else {
				defer l.End(nil)
			}
		}
		is := func(what string, got []Record, left int, want []status.LookupID, wantLeft int) {
			t.Helper()
			var have []status.LookupID
			for _, rec := range got {
				have = append(have, rec.ID)
			}
			if !slices.Equal(have, want) || left != wantLeft {
				t.Errorf("%s: %v and %d more, want %v and %d", what, have, left, want, wantLeft)
			}
		}
		got, left := r.Recent(3)
		is("recent", got, left, []status.LookupID{ids[3], ids[2], ids[1]}, 1)
		got, left = r.Running(9)
		is("running", got, left, []status.LookupID{ids[3], ids[2]}, 0)
		got, left = (*Ring)(nil).Recent(1)
		is("without a ring", got, left, nil, 0)
	})
}
