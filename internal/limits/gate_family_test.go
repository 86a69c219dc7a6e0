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
	refuses := family("f")
	refuses.Refuse = status.Quota
	f := reg.NewGate(refuses, 2, 0)
	a, b := f.Member(), f.Member()
	for range 2 {
		if err := a.Enter(); err != nil {
			t.Fatal(err)
		}
	}
	if l := wantLimit(t, a.Enter(), status.Quota, "f"); l.Current != 2 || l.Cap != 2 {
		t.Errorf("limit %+v", l)
	}
	if err := b.Enter(); err != nil {
		t.Errorf("one gate took another's places: %v", err)
	}
	if i := reg.Snapshot()[0]; i.Kind != limits.KindGate || i.Capacity != 2 || i.Current != 2 || i.Peak != 2 ||
		i.Rejected != 1 {
		t.Errorf("%+v", i)
	}
	a.Leave()
	a.Leave()
	if i := reg.Snapshot()[0]; i.Current != 1 || i.Peak != 2 {
		t.Errorf("%+v", i)
	}
	if err := a.Enter(); err != nil {
		t.Errorf("a place given back is not free: %v", err)
	}
}

// TestGateFamilyTellsTheFullest compares the family with a plain list of counts.
func TestGateFamilyTellsTheFullest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const places = 5
		reg := limits.NewRegistry(nil)
		f := reg.NewGate(family("f"), places, 0)
		gates := make([]*limits.Gate, 4)
		used := make([]int64, len(gates))
		for i := range gates {
			gates[i] = f.Member()
		}
		for range rapid.IntRange(0, 100).Draw(t, "steps") {
			i := rapid.IntRange(0, len(gates)-1).Draw(t, "gate")
			if used[i] > 0 && rapid.Bool().Draw(t, "release") {
				gates[i].Leave()
				used[i]--
			} else if err := gates[i].Enter(); (err == nil) != (used[i] < places) {
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
		f := limits.NewRegistry(nil).NewGate(family("f"), 1, 0)
		slow, fast := f.Member(), f.Member()
		for range 20 {
			_ = slow.Enter()
			_ = fast.Enter()
			time.Sleep(time.Second)
			fast.Leave()
			slow.Leave()
			for range 9 {
				_ = fast.Enter()
				fast.Leave()
			}
		}
		for g, want := range map[*limits.Gate]time.Duration{slow: time.Second, fast: 100 * time.Millisecond} {
			_ = g.Enter()
			if l := wantLimit(t, g.Enter(), status.Busy, "f"); l.RetryAfter < want*9/10 ||
				l.RetryAfter > want*11/10 {
				t.Errorf("told to wait %s, want about %s", l.RetryAfter, want)
			}
		}
	})
}

func TestGateFamilyConcurrently(t *testing.T) {
	reg := limits.NewRegistry(nil)
	f := reg.NewGate(family("f"), 3, 0)
	g := f.Member()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				if g.Enter() == nil {
					g.Leave()
				}
			}
		})
	}
	wg.Wait()
	if i := reg.Snapshot()[0]; i.Current != 0 || i.Peak > 3 {
		t.Errorf("%+v", i)
	}
}
