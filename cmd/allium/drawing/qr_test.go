package drawing

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// TestQR: the finder pattern is where a reader looks for it, and the drawing is as high as it is wide.
func TestQR(t *testing.T) {
	t.Parallel()
	drawing, err := QR("allium1" + strings.Repeat("q", 190))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(drawing, "\n"), "\n")
	wide := utf8.RuneCountInString(lines[0])
	for i, l := range lines {
		if n := utf8.RuneCountInString(l); n != wide {
			t.Errorf("line %d has %d columns, want %d", i, n, wide)
		}
	}
	if high := 2 * len(lines); high != wide && high != wide+1 {
		t.Errorf("%d by %d modules", wide, high)
	}
	border := strings.Repeat("█", 4)
	for i, want := range []string{border, border, border + " ▄▄▄▄▄ █", border + " █   █ █"} {
		if !strings.HasPrefix(lines[i], want) {
			t.Errorf("line %d begins with %.12q, want %q", i, lines[i], want)
		}
	}
	if _, err := QR(strings.Repeat("q", 5000)); err == nil {
		t.Error("a text that no code holds was drawn")
	}
}
