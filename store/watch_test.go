package store_test

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
	"allium/store/storetest"
)

// watcher reads what a put has written so far, each time that it is told.
type watcher struct {
	t       *testing.T
	want    []byte
	arrived int64
	calls   int
	closed  int
}

func (w *watcher) Arrived(f io.ReaderAt, n int64) {
	if w.closed > 0 || n <= w.arrived || n-w.arrived > b3.GroupSize {
		w.t.Errorf("from %d to %d bytes after %d ends", w.arrived, n, w.closed)
	}
	p := make([]byte, n-w.arrived)
	if _, err := f.ReadAt(p, w.arrived); err != nil && !errors.Is(err, io.EOF) || !bytes.Equal(p, w.want[w.arrived:n]) {
		w.t.Errorf("bytes %d to %d are not those that arrived: %v", w.arrived, n, err)
	}
	w.arrived = n
	w.calls++
}

func (w *watcher) Closing() { w.closed++ }

// TestWatch: the bytes of a large put can be read group by group while it runs, and the watcher learns of every end.
func TestWatch(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, cfg store.Config) {
		s, stop := storetest.Start(t, cfg, store.Deps{})
		defer stop()
		p := storetest.Bytes(1, 10*b3.GroupSize+1)
		other := storetest.Bytes(2, len(p))
		broken := errors.New("broken")
		for _, c := range []struct {
			name  string
			bytes []byte
			from  io.Reader
			opt   store.PutOptions
			err   bool
			calls int // at least
			ends  int
		}{
			{"small", p[:b3.GroupSize], bytes.NewReader(p[:b3.GroupSize]), store.PutOptions{}, false, 0, 0},
			{"large", p, bytes.NewReader(p), store.PutOptions{}, false, 11, 1},
			{"known", p, bytes.NewReader(p), store.PutOptions{}, false, 11, 1},
			{"a lie", other, bytes.NewReader(other), store.PutOptions{Expect: b3.Sum(p)}, true, 11, 1},
			{"broken", p, io.MultiReader(bytes.NewReader(p[:5*b3.GroupSize]), failing{broken}), store.PutOptions{},
				true, 1, 1},
		} {
			w := &watcher{t: t, want: c.bytes}
			c.opt.Watch = w
			_, err := s.Put(t.Context(), c.from, c.opt)
			if (err != nil) != c.err || w.calls < c.calls || w.closed != c.ends {
				t.Errorf("%s: %v; %d calls, not %d, and %d ends, not %d", c.name, err, w.calls, c.calls, w.closed,
					c.ends)
			}
		}
		storetest.Holds(t, s, p)
		_, err := s.Open(t.Context(), b3.Sum(other))
		storetest.Want(t, err, status.NotFound)
	})
}

// failing is a reader that fails.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
