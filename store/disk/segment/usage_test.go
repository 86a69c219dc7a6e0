package segment

import "testing"

// TestWastedBytes: what compaction gives back, more of it when space is short.
func TestWastedBytes(t *testing.T) {
	t.Parallel()
	var u usageTable
	u.reset(map[uint64]segmentUsage{
		1: {size: 100, live: 90}, 2: {size: 100, live: 50, tombstones: 20},
		3: {size: 100, live: 40}, 4: {size: 100},
	})
	u.beginTail(4, 100, 100, 1<<40)
	if n := u.reclaimableBytes(false); n != 60 {
		t.Errorf("%d bytes come back, want 60", n)
	}
	if n := u.reclaimableBytes(true); n != 90 {
		t.Errorf("%d bytes come back when space is short, want 90", n)
	}
	if num := u.candidate(true); num != 3 {
		t.Errorf("segment %d is the worst, want 3", num)
	}
	u.remove(3)
	if a, b := u.candidate(false), u.candidate(true); a != 0 || b != 2 {
		t.Errorf("segments %d and %d are the worst, want none and 2", a, b)
	}
}
