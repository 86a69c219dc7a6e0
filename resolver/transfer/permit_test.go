package transfer

import (
	"errors"
	"testing"

	"allium/resolver/schedule"
)

// A place among the fetches that comes when it is not wanted any more is given
// back, also when another one was asked for meanwhile; the end gives back the one
// that is held.
func TestLatePermit(t *testing.T) {
	t.Parallel()
	given := 0
	back := func() { given++ }
	d := &permission{drive: &drive{m: schedule.New(schedule.Config{})}}
	if err := d.grant(grant{ask: 1, release: back}); err != nil || given != 1 || d.permit != nil {
		t.Errorf("not asked for: %v, %d given back", err, given)
	}
	d.asks, d.unask = 2, func() {}
	if err := d.grant(grant{ask: 1, err: errors.New("canceled")}); err != nil {
		t.Errorf("the failure of an old one: %v", err)
	}
	if err := d.grant(grant{ask: 1, release: back}); err != nil || given != 2 || d.unask == nil {
		t.Errorf("an old one: %v, %d given back", err, given)
	}
	if err := d.grant(grant{ask: 2, release: back}); err != nil || given != 2 || d.permit == nil || d.unask != nil {
		t.Errorf("the one asked for: %v, %d given back", err, given)
	}
	d.release()
	if given != 3 || d.permit != nil {
		t.Errorf("at the end: %d given back", given)
	}
}
