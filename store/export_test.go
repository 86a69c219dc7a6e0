package store

import "context"

// ScrubNow runs a cycle of the background check and returns what it saw.
func (s *Store) ScrubNow(ctx context.Context) (Scrub, error) {
	var st scrubState
	st.begin()
	c := newScrubber(s)
	c.buf = make([]byte, scrubSlice)
	err := c.cycle(ctx, &st)
	return st.shown(), err
}
