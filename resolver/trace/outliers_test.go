package trace

import (
	"bytes"
	rt "runtime/trace"
	"testing"
	"testing/synctest"
	"time"

	"allium/protocols/status"
)

// fakeFilms remembers for which lookups a film was asked.
type fakeFilms []status.LookupID

func (f *fakeFilms) Arm()                        {}
func (f *fakeFilms) Freeze(id status.LookupID)   { *f = append(*f, id) }
func (f *fakeFilms) Filmed(status.LookupID) bool { return false }
func (f *fakeFilms) Film(status.LookupID) []byte { return nil }

// TestOutliers: only a lookup beyond 4 times the p99 of its class has its film frozen.
func TestOutliers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		films := &fakeFilms{}
		r := New(Deps{Films: films})
		lookup := func(kind Kind, took time.Duration, err error) status.LookupID {
			l := r.Begin(kind, keyOf(1), 0)
			time.Sleep(took)
			l.End(err)
			return l.ID()
		}
		lookup(Fetch, time.Hour, nil) // nothing is known of the class yet
		for range 200 {
			lookup(Fetch, 20*time.Millisecond, nil)
			lookup(Name, time.Millisecond, nil)
			lookup(Providers, time.Second, nil)
		}
		lookup(Fetch, 75*time.Millisecond, nil)
		lookup(Name, 9*time.Millisecond, nil) // beyond 4 times the p99, and too short
		lookup(Providers, 3*time.Second, nil)
		lookup(Tree, time.Hour, nil) // the first of its class
		if len(*films) != 0 {
			t.Fatalf("films of %v", *films)
		}
		lookup(Fetch, time.Minute, status.Errorf(status.Busy, "full")) // asked nothing
		want := []status.LookupID{lookup(Fetch, 130*time.Millisecond, nil), lookup(Fetch, time.Minute, errNobody)}
		want = append(want, r.Hit(Name, keyOf(1), Cache, time.Millisecond))[:2]
		for range 200 {
			r.Hit(Open, keyOf(1), Store, time.Millisecond)
		}
		want = append(want, r.Hit(Open, keyOf(1), Store, 20*time.Millisecond))
		if len(*films) != len(want) {
			t.Fatalf("films of %v, want %v", *films, want)
		}
		for i, id := range want {
			if (*films)[i] != id {
				t.Errorf("film %d is of %s, want %s", i, (*films)[i], id)
			}
		}
	})
}

// TestDurationsFade: a class that becomes slow is judged by what it is now.
func TestDurationsFade(t *testing.T) {
	t.Parallel()
	var h durations
	outliers := 0
	for i := range 5 * mostCounted {
		took := time.Millisecond * 10
		if i >= mostCounted {
			took = time.Second
		}
		if h.add(took) {
			outliers++
		}
	}
	if outliers == 0 || outliers > mostCounted/20 {
		t.Errorf("%d outliers", outliers)
	}
	if limit := time.Duration(h.limit.Load()); limit < 4*time.Second || limit > 5*time.Second {
		t.Errorf("4 times a p99 of one second is %s", limit)
	}
}

// TestBuckets: the end of a bucket is the begin of the next, and a duration is in one that ends after it.
func TestBuckets(t *testing.T) {
	t.Parallel()
	for i := range numBuckets - 1 {
		if bucketOf(edgeOf(i)) != i+1 {
			t.Errorf("the end of bucket %d, %s, is in bucket %d", i, edgeOf(i), bucketOf(edgeOf(i)))
		}
	}
	for d := time.Nanosecond; d < 100*time.Hour; d += d/7 + 1 {
		if i := bucketOf(d); i < numBuckets-1 && edgeOf(i) <= d {
			t.Errorf("%s is in bucket %d, which ends at %s", d, i, edgeOf(i))
		}
	}
}

// TestMarks: the trace of a process has the ID of each lookup. The test is not parallel: a process has one
// tracer.
func TestMarks(t *testing.T) {
	var out bytes.Buffer
	if err := rt.Start(&out); err != nil {
		t.Skip(err) // go test -trace
	}
	r := New(Deps{Marks: t.Context()})
	l := r.Begin(Fetch, keyOf(1), 0)
	l.Step(Step{Source: Store, Verdict: Miss})
	l.End(nil)
	rt.Stop()
	for _, want := range []string{"lookup fetch", l.ID().String(), "miss after"} {
		if !bytes.Contains(out.Bytes(), []byte(want)) {
			t.Errorf("the trace has no %q", want)
		}
	}
}

// armed counts how often the tracer was armed.
type armed struct {
	fakeFilms
	times int
}

func (a *armed) Arm() { a.times++ }

// TestHitsInRAM: the tracer does not run for what lies in RAM, however often it is asked for.
func TestHitsInRAM(t *testing.T) {
	t.Parallel()
	films := &armed{}
	r := New(Deps{Films: films})
	id := r.Hit(Open, keyOf(1), Memory, 0)
	if _, ok := r.Get(id); !ok || films.times != 0 {
		t.Errorf("recorded %t, armed %d times, want true and 0", ok, films.times)
	}
	if r.Hit(Open, keyOf(1), Store, time.Microsecond); films.times != 1 {
		t.Errorf("armed %d times for a hit of the disk, want 1", films.times)
	}
}

// TestHitAllocates: to judge a hit costs no allocation.
func TestHitAllocates(t *testing.T) {
	r := New(Deps{Films: &fakeFilms{}})
	if n := testing.AllocsPerRun(1000, func() { r.Hit(Open, keyOf(1), Store, time.Microsecond) }); n > 1 {
		t.Errorf("a hit allocates %v times", n) // keyOf does once
	}
}
