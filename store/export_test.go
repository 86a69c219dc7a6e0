package store

import (
	"context"
	"fmt"
)

// ScrubNow runs a cycle of the background check and returns what it saw.
func (s *Store) ScrubNow(ctx context.Context) (Scrub, error) {
	var st scrubState
	st.begin()
	c := newScrubber(s)
	c.buf = make([]byte, scrubSlice)
	err := c.cycle(ctx, &st)
	return st.shown(), err
}

// CheckUsage compares what a store of files, in which nothing goes on, believes
// of its segments with what its index says.
func (s *Store) CheckUsage() error {
	d := s.backend.(*disk)
	live := map[uint64]int64{}
	err := d.index.eachEntry(func(e entry) error { live[e.seg] += recordOf(e); return nil })
	if err == nil {
		err = d.index.eachPin(func(p Pin, seg uint64) error { live[seg] += pinRecordSize(p.Label); return nil })
	}
	if err != nil {
		return err
	}
	segs, sum := d.segments.use.snapshot(), Usage{}
	for num, u := range segs {
		if u.live != live[num] {
			return fmt.Errorf("segment %s: %d bytes are counted as live, the index needs %d", segmentName(num), u.live, live[num])
		}
		sum.SegmentLiveBytes += u.live + u.tombs
		delete(live, num)
	}
	if told := d.usage(); len(live) > 0 || told.Segments != len(segs) || told.SegmentLiveBytes != sum.SegmentLiveBytes {
		return fmt.Errorf("the index names segments that are not counted: %v; told is %+v of %+v", live, told, segs)
	}
	return nil
}
