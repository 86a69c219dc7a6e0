package testkit_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"allium/internal/testkit"
)

// threads is a scenario of threads that do so many actions each; end sees every
// order.
func threads(state func(left []int) string, end func(order string) error, actions ...int) func(o *testkit.Order) error {
	return func(o *testkit.Order) error {
		left := slices.Clone(actions)
		for {
			var offered []string
			for i, n := range left {
				if n > 0 {
					offered = append(offered, string(rune('a'+i)))
				}
			}
			if len(offered) == 0 {
				return end(o.String())
			}
			a, ok := o.Pick(func() string { return state(left) }, offered...)
			if !ok {
				return nil
			}
			left[a[0]-'a']--
		}
	}
}

func nothing([]int) string { return "" }

func everything(left []int) string {
	var b strings.Builder
	for _, n := range left {
		b.WriteByte(byte('0' + n))
	}
	return b.String()
}

// TestExploreEveryOrder: as many as there are, each once.
func TestExploreEveryOrder(t *testing.T) {
	orders := map[string]int{}
	f, err := testkit.Explore(threads(nothing, func(o string) error { orders[o]++; return nil }, 2, 2, 1))
	if err != nil || f.Orders != 30 || len(orders) != 30 || f.Longest != 5 { // 5! / (2! 2! 1!)
		t.Fatalf("%+v, %d different, %v", f, len(orders), err)
	}
}

// TestExploreEveryState: states are gone on from once, and all are found.
func TestExploreEveryState(t *testing.T) {
	ends := 0
	f, err := testkit.Explore(threads(everything, func(string) error { ends++; return nil }, 2, 2, 1))
	if err != nil || f.States != 3*3*2-1 || ends == 0 { // the last state offers nothing
		t.Fatalf("%+v, %d ends, %v", f, ends, err)
	}
	if f.Orders >= 30 {
		t.Errorf("%d orders: nothing was saved", f.Orders)
	}
}

// TestExploreFails tells the order in which it fails.
func TestExploreFails(t *testing.T) {
	want := errors.New("wrong")
	_, err := testkit.Explore(threads(nothing, func(o string) error {
		if o == "b, a, a" {
			return want
		}
		return nil
	}, 2, 1))
	if !errors.Is(err, want) || !strings.Contains(err.Error(), "b, a, a") {
		t.Fatal(err)
	}
}

// TestExploreRepeats: a scenario that is not the same each time is refused.
func TestExploreRepeats(t *testing.T) {
	n := 0
	for name, scenario := range map[string]func(o *testkit.Order) error{
		"other actions": func(o *testkit.Order) error {
			n++
			o.Pick(nil, "a", strings.Repeat("b", n))
			o.Pick(nil, "c", "d")
			return nil
		},
		"other state": func(o *testkit.Order) error {
			n++
			o.Pick(nil, "a")
			o.Pick(func() string { return strings.Repeat("s", n) }, "a", "b")
			return nil
		},
		"an early end": func(o *testkit.Order) error {
			n++
			o.Pick(nil, "a", "b")
			if n == 1 {
				o.Pick(nil, "c", "d")
			}
			return nil
		},
	} {
		n = 0
		if _, err := testkit.Explore(scenario); err == nil || !strings.Contains(err.Error(), "not repeatable") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
