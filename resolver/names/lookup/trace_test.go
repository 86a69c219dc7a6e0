package lookup

import (
	"testing"
	"testing/synctest"
	"time"

	"allium/protocols/status"
	"allium/resolver/trace"
)

// TestSearchIsRecorded: the record of a lookup has the search for each name of the chain, also one
// that another lookup began.
func TestSearchIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.set(signed(t, "site", 1, address))
		ring := trace.New(trace.Deps{})
		site, gone := named(t, "site"), named(t, "gone")
		lookups := []*trace.Lookup{}
		for range 2 {
			l := ring.Begin(trace.Name, trace.Key{Name: site.String()}, 0)
			lookups = append(lookups, l)
			r.tasks.Go(func() {
				_, err := r.Resolve(t.Context(), r.tasks, site, Options{}, l)
				l.End(err)
			})
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Second)
		for i, l := range lookups {
			rec, ok := ring.Get(l.ID())
			if !ok || len(rec.Searches) != 1 {
				t.Fatalf("lookup %d is %+v, %t", i, rec, ok)
			}
			s := rec.Searches[0]
			if s.Key != rec.Key || s.Joined != (i == 1) || s.Found != 1 || s.Took != 100*time.Millisecond {
				t.Errorf("the search of lookup %d is %+v", i, s)
			}
		}
		l := ring.Begin(trace.Name, trace.Key{Name: gone.String()}, 0)
		_, err := r.Resolve(t.Context(), r.tasks, gone, Options{}, l)
		l.End(err)
		rec, _ := ring.Get(l.ID())
		if status.Of(err) != status.NotFound || len(rec.Searches) != 1 || rec.Searches[0].Outcome != status.NotFound {
			t.Errorf("%v: got %+v", err, rec)
		}
	})
}
