package limits_test

import (
	"sync"
	"testing"

	"pgregory.net/rapid"

	"allium/internal/limits"
	"allium/protocols/status"
)

// TestPlaceOfWhoMakesRoom: an item that makes room gives its place back before
// the new item takes one, and Leave after that changes nothing.
func TestPlaceOfWhoMakesRoom(t *testing.T) {
	t.Parallel()
	r := limits.NewRegistry(nil)
	q := limits.NewFairQueue[string, *limits.Place[int]](r, spec("lanes"), 2, 1)
	all := limits.NewFairGate[int](r, spec("places"), 3, 4)
	put := func(k string, group int) (*limits.Shed[*limits.Place[int]], error) {
		p := all.Place(group)
		return q.TryPutAt(k, p, p)
	}
	for range 3 {
		if _, err := put("a", 0); err != nil {
			t.Fatal(err)
		}
		if q.Len() == 1 && all.Free() == 2 {
			if _, err := q.Get(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	shed, err := put("b", 1)
	if err != nil || shed == nil {
		t.Fatalf("a newcomer: %+v, %v", shed, err)
	}
	shed.Item.Leave()
	_, err = put("c", 1)
	wantLimit(t, err, status.Quota, "places")
	for _, i := range r.Snapshot() {
		if i.Name == "places" && (i.Current != 3 || i.Peak != 3 || i.Rejected != 1) {
			t.Errorf("%+v", i)
		}
	}
}

// TestPlacesCount: in every order of puts, runs and ends, as many places are
// taken as items wait and run.
func TestPlacesCount(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		capacity, workers := rapid.IntRange(1, 6).Draw(t, "capacity"), rapid.IntRange(1, 4).Draw(t, "workers")
		r := limits.NewRegistry(nil)
		q := limits.NewFairQueue[int, *limits.Place[int]](r, spec("lanes"), capacity, workers)
		all := limits.NewFairGate[int](r, spec("places"), int64(capacity+workers), 4)
		waits, runs := map[*limits.Place[int]]int{}, []*limits.Place[int]{}
		for range rapid.IntRange(0, 80).Draw(t, "steps") {
			switch {
			case len(runs) > 0 && rapid.Bool().Draw(t, "end"):
				runs[0].Leave()
				q.Done(waits[runs[0]])
				delete(waits, runs[0])
				runs = runs[1:]
			case q.Len() > 0 && len(runs) == 0: // else Get might wait
				p, err := q.Get(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				runs = append(runs, p)
			default:
				k, group := rapid.IntRange(0, 3).Draw(t, "key"), rapid.IntRange(0, 3).Draw(t, "group")
				p := all.Place(group)
				shed, err := q.TryPutAt(k, p, p)
				if err == nil {
					waits[p] = k
				}
				if shed != nil {
					delete(waits, shed.Item)
					shed.Item.Leave()
				}
			}
			if got := all.Free(); got != int64(capacity+workers-len(waits)) {
				t.Fatalf("%d places are free while %d items wait or run", got, len(waits))
			}
		}
		for _, i := range r.Snapshot() {
			if i.Peak > i.Capacity {
				t.Fatalf("%s had %d of %d", i.Name, i.Peak, i.Capacity)
			}
		}
	})
}

// TestFairGatePeak: however many enter and leave at once, the peak is at most the
// capacity.
func TestFairGatePeak(t *testing.T) {
	t.Parallel()
	r := limits.NewRegistry(nil)
	p := limits.NewFairGate[int](r, spec("places"), 2, 1)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 2000 {
				if p.Enter(0) == nil {
					p.Leave(0)
				}
			}
		})
	}
	wg.Wait()
	if i := r.Snapshot()[0]; i.Current != 0 || i.Peak > 2 {
		t.Errorf("%+v", i)
	}
}
