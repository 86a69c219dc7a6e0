package drawing

import (
	"strings"
	"testing"
)

func TestFold(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		text  string
		width int
		less  int
		want  string
	}{
		{"", 5, 0, ""},
		{"12345", 5, 0, "12345"},
		{"123 456", 5, 0, "123|456"},
		{"123456789", 5, 2, "12345|678|9"},
		{"äöü äöü äöü", 7, 3, "äöü äöü|äöü"},
		{"äöü äöü äöü", 6, 3, "äöü|äöü|äöü"},
	} {
		if got := strings.Join(Fold(tc.text, tc.width, tc.less), "|"); got != tc.want {
			t.Errorf("%q in %d columns: got %q, want %q", tc.text, tc.width, got, tc.want)
		}
	}
}
