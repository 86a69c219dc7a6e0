package edge

import (
	"strings"
	"testing"
)

// TestFillsReading: the gate is shut exactly while fills are refused, and says how many wait and what to do.
func TestFillsReading(t *testing.T) {
	t.Parallel()
	for _, waiting := range []int{0, 255, 256, 257, 512} {
		if r := fillsReading(waiting, 512, false); !r.Ready() {
			t.Errorf("%d wait: %+v", waiting, r)
		}
		r := fillsReading(waiting, 512, true)
		if r.Ready() || r.Need != 257 || r.Have > 512-int64(waiting) || !strings.Contains(r.Fix, "edge.fills") {
			t.Errorf("%d wait: %+v", waiting, r)
		}
	}
}
