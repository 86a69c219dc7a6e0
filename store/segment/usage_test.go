package segment

import "testing"

// TestWastedBytes: what compaction gives back, more of it when space is short.
func TestWastedBytes(t *testing.T) {
	t.Parallel()
	var u usage
	u.reset(map[uint64]figures{1: {size: 100, live: 90}, 2: {size: 100, live: 50, tombs: 20}, 3: {size: 100, live: 40}, 4: {size: 100}})
	u.begin(4, 100, 100, 1<<40)
	if n := u.wastedBytes(false); n != 60 {
		t.Errorf("%d bytes come back, want 60", n)
	}
	if n := u.wastedBytes(true); n != 90 {
		t.Errorf("%d bytes come back when space is short, want 90", n)
	}
	if num := u.worst(true); num != 3 {
		t.Errorf("segment %d is the worst, want 3", num)
	}
	u.retire(3)
	if a, b := u.worst(false), u.worst(true); a != 0 || b != 2 {
		t.Errorf("segments %d and %d are the worst, want none and 2", a, b)
	}
}
