package store_test

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/protocols/b3"
	"allium/store"
	"allium/store/storetest"
)

// promise is what the store said of one download.
type promise struct {
	held int64 // bytes at least, unless it is whole
	open bool  // an operation that may change anything is under way
	most int64 // bytes that were ever written
	whole,
	gone bool
}

// partLedger is what the store promised of downloads so far.
type partLedger struct {
	mu    sync.Mutex
	bytes map[b3.Root][]byte
	said  map[b3.Root]promise
}

func (l *partLedger) set(p []byte, now promise) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bytes[b3.Sum(p)], l.said[b3.Sum(p)] = p, now
}

func (l *partLedger) Copy() *partLedger {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &partLedger{bytes: maps.Clone(l.bytes), said: maps.Clone(l.said)}
}

// Check opens what a crash left, compares it with what was promised, and
// completes every download.
func (l *partLedger) Check(t testing.TB, disk vfs.FS) error {
	s, stop, err := storetest.Try(t, tiny(), store.Deps{FS: disk})
	if err != nil {
		return fmt.Errorf("does not open: %w", err)
	}
	defer func() { _ = stop() }()
	<-s.Adopted()
	if all := s.Damage(); len(all) > 0 {
		return fmt.Errorf("the debris of a crash is taken for damage: %+v", all)
	}
	var sum, n int64
	for root, said := range l.said {
		p := l.bytes[root]
		has, err := s.Has(t.Context(), []b3.Root{root})
		if err != nil {
			return err
		}
		var held int64
		switch has[0] {
		case b3.Complete:
			o, err := s.Open(t.Context(), root)
			if err != nil {
				return err
			}
			got, err := io.ReadAll(io.NewSectionReader(o.Reader(), 0, o.Size()))
			o.Close()
			if err != nil || !bytes.Equal(got, p) {
				return fmt.Errorf("%s is whole and holds other bytes: %w", root, err)
			}
		case b3.Partial:
			if held, err = readPart(t.Context(), s, p); err != nil {
				return fmt.Errorf("%s: %w", root, err)
			}
			sum += held
			n++
		case b3.Absent:
		}
		switch whole := has[0] == b3.Complete; {
		case said.open && (whole || held <= said.most):
		case said.whole && whole, said.gone && !whole && held == 0:
		case !said.whole && !said.gone && !whole && held >= said.held && held <= said.most:
		default:
			return fmt.Errorf("%s: promised %+v, and %v with %d bytes is here", root, said, has[0], held)
		}
	}
	if st := s.Stats(); st.PartialObjects != n || st.PartialBytes != sum {
		return fmt.Errorf("%d parts of %d bytes are here, but stats say %+v", n, sum, st)
	}
	for _, p := range l.bytes {
		if err := complete(t, s, p); err != nil {
			return fmt.Errorf("cannot be completed: %w", err)
		}
		if err := s.Verify(t.Context(), b3.Sum(p)); err != nil {
			return err
		}
	}
	return tidy(disk, s)
}

// partScript does with downloads what can be done.
func partScript(t testing.TB, s *store.Store, l *partLedger) {
	const groups = 5
	begin := func(p []byte) *store.Ingest {
		in, err := s.Ingest(t.Context(), b3.Sum(p), int64(len(p)))
		if err != nil {
			t.Fatal(err)
		}
		return in
	}
	suspend := func(p []byte, lo, hi int64) { // and the last group
		l.mu.Lock()
		before := l.said[b3.Sum(p)]
		l.mu.Unlock()
		in := begin(p)
		most := before.most + (hi-lo+1)*group
		l.set(p, promise{open: true, most: most})
		if err := writeAll(in, append(groupsOf(t, p, lo, hi), groupsOf(t, p, groups-1, groups)...)); err != nil {
			t.Error(err)
		}
		held := in.Held()
		in.Suspend()
		l.set(p, promise{held: held, most: most})
	}
	finish := func(p []byte, do func(in *store.Ingest) error, now promise) {
		in := begin(p)
		l.set(p, promise{open: true, most: groups * group})
		if err := do(in); err != nil {
			t.Error(err)
		}
		now.most = groups * group
		l.set(p, now)
	}
	content := func(i int) []byte { return storetest.Bytes(uint64(700+i), groups*group-100*i) }
	rest := func(p []byte) func(in *store.Ingest) error {
		return func(in *store.Ingest) error {
			if err := writeAll(in, groupsOf(t, p, 0, groups)); err != nil {
				return err
			}
			_, err := in.Commit(t.Context(), true) // durable at once, for a checkpoint was noted
			return err
		}
	}
	suspend(content(0), 0, 2)
	suspend(content(0), 1, 3)
	finish(content(0), rest(content(0)), promise{whole: true})

	suspend(content(1), 1, 2)
	finish(content(1), func(in *store.Ingest) error { in.Abort(nil); return nil }, promise{gone: true})

	suspend(content(2), 0, 1)
	l.set(content(2), promise{open: true, most: groups * group})
	if err := s.Partials().Remove(t.Context(), b3.Sum(content(2))); err != nil {
		t.Error(err)
	}
	l.set(content(2), promise{gone: true})

	suspend(content(3), 2, 3)
	l.set(content(3), promise{open: true, most: groups * group})
	storetest.Put(t, s, content(3))
	l.set(content(3), promise{whole: true})

	suspend(content(4), 3, 4)
	finish(content(5), rest(content(5)), promise{open: true}) // in one go, and deferred
}

// TestCrashPartial takes the power away before every write, sync, rename and
// unlink of downloads that are suspended, resumed, committed, given up and
// removed: what a checkpoint promised is there, proved, and can be completed.
func TestCrashPartial(t *testing.T) {
	if testing.Short() {
		t.Skip("opens a thousand stores; TestPartialConcurrent has its goroutines")
	}
	t.Parallel()
	l := &partLedger{bytes: map[b3.Root][]byte{}, said: map[b3.Root]promise{}}
	storetest.CrashEverywhere(t, tiny(), rand.New(rand.NewPCG(3, 4)), l, func(s *store.Store) { partScript(t, s, l) })
}
