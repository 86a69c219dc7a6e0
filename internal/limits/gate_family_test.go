package limits_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"allium/internal/limits"
	"allium/protocols/status"
)

func TestGateFamilyBoundsEachGate(t *testing.T) {
	reg := limits.NewRegistry(nil)
	f := reg.NewGateFamily(spec("f"), 2)
	a, b := f.Gate(), f.Gate()
	for range 2 {
		if err := a.TryAcquire(); err != nil {
			t.Fatal(err)
		}
	}
	if l := wantLimit(t, a.TryAcquire(), status.Quota, "f"); l.Current != 2 || l.Cap != 2 {
		t.Errorf("limit %+v", l)
	}
	if err := b.TryAcquire(); err != nil {
		t.Errorf("one gate took another's places: %v", err)
	}
	if i := reg.Snapshot()[0]; i.Kind != limits.KindGate || i.Capacity != 2 || i.Current != 2 || i.Peak != 2 ||
		i.Rejected != 1 {
		t.Errorf("%+v", i)
	}
	a.Release()
	a.Release()
	if i := reg.Snapshot()[0]; i.Current != 1 || i.Peak != 2 {
		t.Errorf("%+v", i)
	}
	if err := a.TryAcquire(); err != nil {
		t.Errorf("a place given back is not free: %v", err)
	}
}

// TestGateFamilyTellsTheFullest compares the family with a plain list of counts.
func TestGateFamilyTellsTheFullest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const places = 5
		reg := limits.NewRegistry(nil)
		f := reg.NewGateFamily(spec("f"), places)
		gates := make([]*limits.FamilyGate, 4)
		used := make([]int64, len(gates))
		for i := range gates {
			gates[i] = f.Gate()
		}
		for range rapid.IntRange(0, 100).Draw(t, "steps") {
			i := rapid.IntRange(0, len(gates)-1).Draw(t, "gate")
			if used[i] > 0 && rapid.Bool().Draw(t, "release") {
				gates[i].Release()
				used[i]--
			} else if err := gates[i].TryAcquire(); (err == nil) != (used[i] < places) {
				t.Fatalf("with %d places taken: %v", used[i], err)
			} else if err == nil {
				used[i]++
			}
			want := max(used[0], used[1], used[2], used[3])
			if got := reg.Snapshot()[0].Current; got != want {
				t.Fatalf("%v: the fullest is %d, told is %d", used, want, got)
			}
		}
	})
}

// TestGateFamilyTellsTheWait: a refusal says when one place will be free, by
// the pace of that gate alone.
func TestGateFamilyTellsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := limits.NewRegistry(nil).NewGateFamily(spec("f"), 1)
		slow, fast := f.Gate(), f.Gate()
		for range 20 {
			_ = slow.TryAcquire()
			_ = fast.TryAcquire()
			time.Sleep(time.Second)
			fast.Release()
			slow.Release()
			for range 9 {
				_ = fast.TryAcquire()
				fast.Release()
			}
		}
		for g, want := range map[*limits.FamilyGate]time.Duration{slow: time.Second, fast: 100 * time.Millisecond} {
			_ = g.TryAcquire()
			if l := wantLimit(t, g.TryAcquire(), status.Quota, "f"); l.RetryAfter < want*9/10 ||
				l.RetryAfter > want*11/10 {
				t.Errorf("told to wait %s, want about %s", l.RetryAfter, want)
			}
		}
	})
}

func TestGateFamilyConcurrently(t *testing.T) {
	reg := limits.NewRegistry(nil)
	f := reg.NewGateFamily(spec("f"), 3)
	g := f.Gate()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				if g.TryAcquire() == nil {
					g.Release()
				}
			}
		})
	}
	wg.Wait()
	if i := reg.Snapshot()[0]; i.Current != 0 || i.Peak > 3 {
		t.Errorf("%+v", i)
	}
}
