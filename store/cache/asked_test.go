package cache

import (
	"fmt"
	"testing"

	"allium/protocols/b3"
)

func rootOf(i int) b3.Root { return b3.Sum(fmt.Append(nil, i)) }

// TestSecondTime: an object is wanted when it is asked for the second time, while few others were asked for.
func TestSecondTime(t *testing.T) {
	t.Parallel()
	h, err := NewRAM(MinBytes)
	if err != nil {
		t.Fatal(err)
	}
	const few, many = askedSets * askedWays / 4, 16 * askedSets * askedWays
	for i := range few {
		if o, wanted := h.Get(rootOf(i)); o != nil || wanted {
			t.Fatalf("object %d is wanted when it is asked for first", i)
		}
	}
	for i := range few {
		if _, wanted := h.Get(rootOf(i)); !wanted {
			t.Fatalf("object %d is not wanted when it is asked for again", i)
		}
		if _, wanted := h.Get(rootOf(i)); wanted {
			t.Fatalf("object %d counts twice", i)
		}
	}
	for i := range many {
		h.Get(rootOf(few + i))
	}
	for i := range few {
		if _, wanted := h.Get(rootOf(i)); wanted {
			t.Fatalf("object %d is remembered after %d others", i, many)
		}
	}
}

// TestAskedTakesNoMemory: whatever is asked for, what remembers it does not grow.
func TestAskedTakesNoMemory(t *testing.T) {
	h, err := NewRAM(16 * MinBytes)
	if err != nil {
		t.Fatal(err)
	}
	roots := make([]b3.Root, 20_000)
	for i := range roots {
		roots[i] = rootOf(i)
	}
	if n := testing.AllocsPerRun(1, func() {
		for _, r := range roots {
			h.Get(r)
		}
	}); n > 0 {
		t.Errorf("%.0f allocations for %d objects that are not there", n, len(roots))
	}
}
