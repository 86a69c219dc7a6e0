package natural_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"allium/internal/natural"
)

func TestCompare(t *testing.T) {
	want := []string{
		"", "01", "1", "2", "10", "10.txt", "a", "A1", "a2", "a10", "a10b", "a12", "B", "b",
		"file 9", "file 10", "file10",
		"File11", "v1.2.9", "v1.2.10", "v18446744073709551616", "v18446744073709551617", "z", "É", "é", "日本1", "日本2",
	}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, natural.Compare)
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// TestOrder proves that Compare is a total order, which sorting needs.
func TestOrder(t *testing.T) {
	names := rapid.StringOf(rapid.SampledFrom([]rune("019aAbÄäſKk\u212a.é \xff")))
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := names.Draw(t, "a"), names.Draw(t, "b"), names.Draw(t, "c")
		if natural.Compare(a, b) != -natural.Compare(b, a) || (natural.Compare(a, b) == 0) != (a == b) {
			t.Fatalf("%q and %q", a, b)
		}
		if natural.Compare(a, b) < 0 && natural.Compare(b, c) < 0 && natural.Compare(a, c) >= 0 {
			t.Fatalf("%q, %q, %q", a, b, c)
		}
	})
}
