package sweep

import (
	"testing"
	"time"

	pebbleds "github.com/ipfs/go-ds-pebble"
)

// TestOverPebble: the state that a run leaves on a real disk is what the next
// one resumes from.
func TestOverPebble(t *testing.T) {
	w := newWorld(30, 40)
	dir := t.TempDir()
	life := func(done func(s *run) bool) {
		d, err := pebbleds.NewDatastore(dir)
		if err != nil {
			t.Fatal(err)
		}
		s := w.start(t, d)
		for !done(s) {
			time.Sleep(20 * time.Millisecond)
		}
		s.stop()
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	online := func(s *run) bool {
		st, err := s.Stats(t.Context())
		return err == nil && st.Online && st.Late == 0 && st.Regions > 0
	}
	life(func(s *run) bool { n, _ := w.published(); return n == 40 && online(s) && s.Lag() == 0 })
	w.forget()
	quiet := 0 // looks in a row, for a second
	life(func(s *run) bool {
		if quiet++; !online(s) {
			quiet = 0
		}
		if quiet < 50 {
			return false
		}
		if st, err := s.Stats(t.Context()); err != nil || st.Roots != 40 || st.Lag != 0 {
			t.Errorf("%+v, %v", st, err)
		}
		return true
	})
	if n, _ := w.published(); n != 0 {
		t.Errorf("%d roots published again", n)
	}
}
