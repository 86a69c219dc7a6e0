package resolver

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
	"allium/protocols/dht/probes"
	"allium/protocols/manifest"
	"allium/protocols/name"
	"allium/protocols/record"
	"allium/protocols/status"
	"allium/resolver/providers"
	"allium/resolver/trace"
)

// recorded returns the record of the latest lookup of root.
func (w *world) recorded(t testing.TB, root b3.Root) trace.Record {
	t.Helper()
	all := w.ring.Latest(trace.Key{Root: root}, 1)
	if len(all) == 0 {
		t.Fatalf("nothing is recorded of %s", root)
	}
	return all[0]
}

// asked returns the provider with that ID.
func asked(t testing.TB, rec *trace.Record, id peer.ID) trace.Peer {
	t.Helper()
	i := slices.IndexFunc(rec.Peers, func(p trace.Peer) bool { return p.ID == id })
	if i < 0 {
		t.Fatalf("%s is not recorded", id)
	}
	return rec.Peers[i]
}

// stepsFrom returns the verdicts of a source.
func stepsFrom(rec *trace.Record, from trace.Source) (verdicts []trace.Verdict) {
	for _, s := range rec.Steps {
		if s.Source == from {
			verdicts = append(verdicts, s.Verdict)
		}
	}
	return verdicts
}

func TestRecordOfTransfer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		b := randomBlob(70, 40*group+5)
		liar, honest := w.net.peer("liar", b), w.net.peer("honest", b)
		liar.spoil = func(_ b3.Root, g int64) bool { return g == 2 }
		liar.before = every(time.Millisecond)
		honest.before = every(2 * time.Millisecond)
		from := Sources{Peers: []peer.AddrInfo{{ID: "liar"}, {ID: "honest"}}}
		info, err := w.Fetch(t.Context(), b.root, FetchOptions{Sources: from})
		if err != nil {
			t.Fatal(err)
		}
		rec := w.recorded(t, b.root)
		if rec.ID != info.LookupID || rec.Kind != trace.Fetch || rec.Outcome != status.OK || rec.Callers != 1 {
			t.Errorf("got %+v", rec.Head)
		}
		if rec.Ready <= 0 || rec.Ready > rec.Took || rec.Bytes != int64(len(b.data)) {
			t.Errorf("ready after %s of %s, with %d bytes", rec.Ready, rec.Took, rec.Bytes)
		}
		l, h := asked(t, &rec, "liar"), asked(t, &rec, "honest")
		if l.GaveUp == nil || l.GaveUp.Outcome != status.Corrupt || l.Origin != trace.Named {
			t.Errorf("the liar is %+v", l)
		}
		if h.GaveUp != nil || l.Bytes+h.Bytes != rec.Bytes || h.Bytes == 0 {
			t.Errorf("%d and %d bytes of %d came", l.Bytes, h.Bytes, rec.Bytes)
		}
		last := l.Spans[len(l.Spans)-1]
		if last.Outcome != status.Corrupt || last.Message == "" || last.Took == 0 {
			t.Errorf("the liar's request is %+v", last)
		}
		if got := stepsFrom(&rec, trace.Store); !slices.Equal(got, []trace.Verdict{trace.Miss}) {
			t.Errorf("the store said %v", got)
		}

		again, err := w.Fetch(t.Context(), b.root, FetchOptions{Sources: from})
		hit, ok := w.ring.Get(again.LookupID)
		if err != nil || !ok || again.LookupID == info.LookupID || hit.Steps[0].Verdict != trace.Hit {
			t.Errorf("a local fetch is recorded as %+v, %t: %v", hit, ok, err)
		}
	})
}

// Callers that share a transfer have one lookup, and each error names it.
func TestRecordIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		b := randomBlob(71, 3*group)
		w.net.peer("p", b).refuse = func(int) error {
			time.Sleep(time.Second)
			return status.Errorf(status.Upstream, "fake: no")
		}
		w.has([]peer.ID{"p"}, b)
		ids := make([]string, 3)
		var wg sync.WaitGroup
		for i := range ids {
			wg.Go(func() {
				_, err := w.Fetch(t.Context(), b.root, FetchOptions{})
				ids[i] = status.LookupOf(err)
			})
		}
		wg.Wait()
		rec := w.recorded(t, b.root)
		want := rec.ID.String()
		if !slices.Equal(ids, []string{want, want, want}) || rec.Callers != 3 {
			t.Errorf("%d callers got %v, recorded is %s", rec.Callers, ids, want)
		}
		if rec.Outcome != status.Upstream || rec.Message == "" {
			t.Errorf("got %+v", rec.Head)
		}
		if p := asked(t, &rec, "p"); p.Asked != w.cfg.Load().Tries || p.GaveUp == nil || p.Origin != trace.DHT {
			t.Errorf("the provider is %+v", p)
		}
	})
}

// Every way to fail has a lookup, also before any peer is asked.
func TestErrorsNameTheirLookup(t *testing.T) {
	b := randomBlob(72, 10)
	denied := status.Errorf(status.Denied, "it is denied")
	for name, tc := range map[string]struct {
		prepare func(*world)
		change  func(*Config, *Deps)
		want    status.Outcome
	}{
		"denied": {want: status.Denied, change: func(_ *Config, d *Deps) {
			d.Filter = denyingAll{denied}
		}},
		"stopped":  {want: status.Draining, prepare: func(w *world) { w.stop() }},
		"no peers": {want: status.NotFound},
		"damaged": {want: status.Corrupt, prepare: func(w *world) {
			w.local.add(b)
			w.local.damaged[b.root] = true
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tc.change)
			if tc.prepare != nil {
				tc.prepare(w)
			}
			_, fetched := w.Fetch(t.Context(), b.root, FetchOptions{})
			_, opened := w.Open(t.Context(), b.root, Whole(Sources{}))
			_, tree := w.FetchTree(t.Context(), b.root, FetchOptions{})
			for what, err := range map[string]error{"fetch": fetched, "open": opened, "tree": tree} {
				id, ok := status.ParseLookupID(status.LookupOf(err))
				if status.Of(err) != tc.want || !ok {
					t.Fatalf("%s: got %v with lookup %q", what, err, status.LookupOf(err))
				}
				rec, ok := w.ring.Get(id)
				if !ok || rec.Outcome != tc.want && tc.want != status.Corrupt {
					t.Errorf("%s: recorded is %+v, %t", what, rec.Head, ok)
				}
			}
		})
	}
}

func TestRecordOfTree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		small, gone, large := randomBlob(73, 100), randomBlob(74, 200), randomBlob(75, maxBatched+group)
		nodes := dir(t,
			manifest.Entry{Name: "a", Kind: manifest.File, Root: small.root, Size: 100},
			manifest.Entry{Name: "b", Kind: manifest.File, Root: gone.root, Size: 200})
		root := nodes[len(nodes)-1].root
		withLarge := dir(t, manifest.Entry{
			Name: "c", Kind: manifest.File, Root: large.root, Size: int64(len(large.data)),
		})
		w.net.peer("p", slices.Concat(nodes, withLarge, []*blob{small, large})...)
		w.finder.who[root] = []peer.ID{"p"}
		_, err := w.FetchTree(t.Context(), root, FetchOptions{})
		if status.Of(err) != status.NotFound {
			t.Fatal(err)
		}
		synctest.Wait()
		rec := w.recorded(t, root)
		if rec.Kind != trace.Tree || rec.Outcome != status.NotFound || rec.Tree == nil || rec.Tree.Objects != 3 {
			t.Fatalf("got %+v", rec)
		}
		if f := rec.Tree.Failures; len(f) != 1 || f[0].Root != gone.root || f[0].Outcome != status.NotFound {
			t.Errorf("the failures are %+v", f)
		}
		if p := asked(t, &rec, "p"); p.Bytes == 0 || p.Spans[0].Objects != 1 || p.Spans[0].First == 0 {
			t.Errorf("the provider is %+v", p)
		}
		root = withLarge[len(withLarge)-1].root
		w.finder.who[root] = []peer.ID{"p"}
		if _, err := w.FetchTree(t.Context(), root, FetchOptions{}); err != nil {
			t.Fatal(err)
		}
		rec, part := w.recorded(t, root), w.recorded(t, large.root)
		if part.Parent != rec.ID || part.Kind != trace.Fetch {
			t.Errorf("the large file is %+v", part.Head)
		}
	})
}

// Lookups that their callers give up leave nothing behind.
func TestAbandonedLookups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.finder.hang = true
		const lookups, atOnce = 10_000, 400
		for i := 0; i < lookups; i += atOnce {
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			for k := range atOnce {
				root := b3.Sum(fmt.Append(nil, i+k))
				wg.Go(func() {
					if _, err := w.Fetch(ctx, root, FetchOptions{}); !errors.Is(err, context.Canceled) {
						t.Errorf("got %v", err)
					}
				})
			}
			synctest.Wait()
			if i == 0 {
				if n := w.counter(t, "trace_ring_entries", "running"); n != atOnce {
					t.Errorf("%v lookups are recorded as running", n)
				}
			}
			cancel()
			wg.Wait()
			synctest.Wait() // the places of those that waited are free again
		}
		for _, part := range []string{"running", "failed", "ordinary"} {
			if n := w.counter(t, "trace_ring_entries", part); n != 0 {
				t.Errorf("%v lookups are in the part %s", n, part)
			}
		}
	})
}

// tracing is a finder whose search takes two probes, of which the second outlasts it.
type tracing struct {
	*fakeFinder
	late time.Duration
}

func (f tracing) FindProviders(
	ctx context.Context, root b3.Root, opt providers.FindOptions,
) iter.Seq2[record.Provider, error] {
	return func(yield func(record.Provider, error) bool) {
		defer func() {
			time.Sleep(f.late)
			*opt.Trace = probes.Trace{End: "timed_out", Probes: 2, Steps: []probes.Step{
				{Peer: "near", Hop: 1, Took: time.Millisecond, Outcome: "ok", Closer: 3},
				{Peer: "silent", Hop: 2, Took: time.Second, Outcome: "timeout"},
			}}
		}()
		f.fakeFinder.FindProviders(ctx, root, opt)(yield)
	}
}

// The record of a lookup has the search in the DHT, also when the DHT says how it went only after
// the deadline, and also when another lookup began it.
func TestRecordOfSearch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(_ *Config, d *Deps) {
			d.Providers = tracing{d.Providers.(*fakeFinder), time.Second}
		})
		w.finder.hang = true
		dir, b := randomBlob(76, 10), randomBlob(77, 10)
		from := Sources{Via: dir.root}
		var wg sync.WaitGroup
		errs := make([]error, 2)
		for i, root := range []b3.Root{b.root, randomBlob(78, 10).root} {
			wg.Go(func() { _, errs[i] = w.Fetch(t.Context(), root, FetchOptions{Sources: from}) })
		}
		wg.Wait()
		// What is remembered names the lookup that found it.
		_, _ = w.Fetch(t.Context(), b.root, FetchOptions{})
		rec := w.recorded(t, b.root)
		i := slices.IndexFunc(rec.Steps, func(s trace.Step) bool { return s.Source == trace.Cache })
		if i < 0 || rec.Steps[i].Verdict != trace.Negative || rec.Steps[i].Lookup.String() != status.LookupOf(errs[0]) {
			t.Errorf("the steps are %+v", rec.Steps)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		var joined int
		for _, err := range errs {
			id, _ := status.ParseLookupID(status.LookupOf(err))
			rec, ok := w.ring.Get(id)
			if !ok || len(rec.Searches) != 2 {
				t.Fatalf("%v: got %+v", err, rec)
			}
			s := rec.Searches[0]
			if s.Key.Root != dir.root || s.Outcome != status.Timeout || s.Took != w.cfg.Load().Deadline ||
				s.Walk.End != "timed_out" ||
				len(s.Walk.Probes) != 2 || s.Walk.Probes[1].Peer != "silent" {
				t.Errorf("the search is %+v", s)
			}
			if s.Joined {
				joined++
			}
			if rec.Searches[1].Key != rec.Key || rec.Searches[1].Joined {
				t.Errorf("the second search is %+v", rec.Searches[1])
			}
		}
		if joined != 1 {
			t.Errorf("%d lookups joined the search", joined)
		}
	})
}

// denyingAll denies every object and every name with err.
type denyingAll struct{ err error }

func (d denyingAll) Object(b3.Root) error       { return d.err }
func (d denyingAll) Path(b3.Root, string) error { return d.err }
func (d denyingAll) Name(name.Name) error       { return d.err }
