package storetest

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"testing"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
)

// Items returns the proved items of ranges of p that a peer would send if it claimed that p
// has size bytes. When size is not the size of p, Items returns the items up to the first one
// that cannot be proved.
func Items(t testing.TB, p []byte, size int64, ranges ...b3.Range) []b3.Proved {
	t.Helper()
	var outboard bytes.Buffer
	h := b3.NewHasher(&outboard, 1)
	if _, err := h.Write(p); err != nil {
		t.Fatal(err)
	}
	root, _, err := h.Sum()
	if err != nil {
		t.Fatal(err)
	}
	src := b3.FileSource(bytes.NewReader(p), bytes.NewReader(outboard.Bytes()), int64(len(p)))
	w, err := b3.NewWalk(root, size, ranges)
	if err != nil {
		t.Fatal(err)
	}
	var items []b3.Proved
	for {
		item, err := w.Fill(src, make([]byte, b3.GroupSize))
		if err == io.EOF {
			return items
		}
		if err != nil {
			if size == int64(len(p)) {
				t.Fatal(err)
			}
			return items
		}
		items = append(items, item)
	}
}

// begin starts an ingest of p.
func begin(t *testing.T, s *store.Store, p []byte) *store.Ingest {
	t.Helper()
	in, err := s.Ingest(t.Context(), b3.Sum(p), int64(len(p)))
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// write writes items to the ingest.
func write(t *testing.T, in *store.Ingest, items ...b3.Proved) {
	t.Helper()
	for _, item := range items {
		if err := in.Write(item); err != nil {
			t.Fatal(err)
		}
	}
}

func testIngest(t *testing.T, s *store.Store) {
	for i, size := range append(sizes, 7*b3.GroupSize, 40*b3.GroupSize+9) {
		p := Bytes(uint64(size), size)
		items := Items(t, p, int64(size))
		rand.New(rand.NewPCG(1, 1)).Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
		in := begin(t, s, p)
		write(t, in, items...)
		write(t, in, items[0]) // twice
		if got, proved := in.Size(); got != int64(size) || !proved {
			t.Fatalf("size is %d, proved %t", got, proved)
		}
		if _, err := s.Open(t.Context(), b3.Sum(p)); status.Of(err) != status.NotFound {
			t.Fatalf("visible before commit: %v", err)
		}
		info, err := in.Commit(t.Context(), i%2 == 1)
		if err != nil || !info.New || info.Size != int64(size) || info.Root != b3.Sum(p) {
			t.Fatalf("commit of %d bytes says %+v, %v", size, info, err)
		}
		if err := s.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		Holds(t, s, p)
		_, err = in.Commit(t.Context(), false)
		Want(t, err, status.Conflict)
		Want(t, in.Write(items[0]), status.Conflict)
		in.Abort(nil) // does nothing after a commit
		Holds(t, s, p)
		if err := s.Verify(t.Context(), b3.Sum(p)); err != nil {
			t.Fatal(err)
		}
	}
	// A commit of an object that the store has stores nothing.
	p := Bytes(b3.GroupSize+1, b3.GroupSize+1)
	in := begin(t, s, p)
	write(t, in, Items(t, p, int64(len(p)))...)
	if info, err := in.Commit(t.Context(), false); err != nil || info.New {
		t.Fatalf("commit of what is there says %+v, %v", info, err)
	}
	Holds(t, s, p)
	if st := s.Stats(); st.Leases != 0 || st.Ingests != 0 {
		t.Errorf("stats say %+v", st)
	}
}

func testIngestRefuses(t *testing.T, s *store.Store) {
	for _, size := range []int{1000, 9*b3.GroupSize + 1} {
		p := Bytes(uint64(size), size)
		items := Items(t, p, int64(size))
		for skip := range items {
			if items[skip].IsParent() {
				continue // writing a group writes its parents, too
			}
			in := begin(t, s, p)
			Want(t, in.Write(b3.Proved{}), status.BadRequest)
			other := Bytes(99, size)
			Want(t, in.Write(Items(t, other, int64(size))[0]), status.BadRequest)
			write(t, in, items[:skip]...)
			write(t, in, items[skip+1:]...)
			_, err := in.Commit(t.Context(), false)
			Want(t, err, status.Precondition)
			if skip%2 == 0 {
				in.Abort(nil)
				continue
			}
			write(t, in, items[skip]) // the ingest continues after a failed commit
			if _, err := in.Commit(t.Context(), false); err != nil {
				t.Fatal(err)
			}
			Holds(t, s, p)
			if err := s.Delete(t.Context(), b3.Sum(p)); err != nil {
				t.Fatal(err)
			}
		}
	}
	_, err := s.Ingest(t.Context(), b3.Root{1}, -1)
	Want(t, err, status.Upstream)
	_, err = s.Ingest(t.Context(), b3.Root{1}, b3.MaxSize+1)
	Want(t, err, status.Upstream)
	wantCount(t, s, 0)
}

// testIngestFalseSize: an ingest with a false size cannot be committed, also with a very large
// size.
func testIngestFalseSize(t *testing.T, s *store.Store) {
	p := Bytes(5, 6*b3.GroupSize)
	for _, size := range []int64{5 * b3.GroupSize, 6*b3.GroupSize - 1, 6*b3.GroupSize + 1, 7 * b3.GroupSize,
		8 * b3.GroupSize, 1 << 50} {
		in, err := s.Ingest(t.Context(), b3.Sum(p), size)
		if err != nil {
			t.Fatal(err)
		}
		true6 := Items(t, p, int64(len(p)))
		Want(t, in.Write(true6[0]), status.BadRequest)
		write(t, in, Items(t, p, size, b3.Range{Start: 0, End: 1})...)
		write(t, in, Items(t, p, size)...)
		if _, proved := in.Size(); proved {
			t.Fatalf("size %d is said to be proved", size)
		}
		_, err = in.Commit(t.Context(), false)
		Want(t, err, status.Precondition)
		in.Abort(nil)
	}
	wantCount(t, s, 0)
}

func testIngestOnce(t *testing.T, s *store.Store) {
	p := Bytes(7, 3*b3.GroupSize)
	items := Items(t, p, int64(len(p)))
	// A second ingest of an object may begin while the first one's commit is deferred.
	pending := begin(t, s, p)
	write(t, pending, items...)
	if _, err := pending.Commit(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	second := begin(t, s, p)
	write(t, second, items[:2]...)
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	Holds(t, s, p)
	write(t, second, items[2:]...)
	if info, err := second.Commit(t.Context(), false); err != nil || info.New {
		t.Fatalf("the second commit says %+v, %v", info, err)
	}
	Holds(t, s, p)
	if err := s.Delete(t.Context(), b3.Sum(p)); err != nil {
		t.Fatal(err)
	}
	p = Bytes(6, 2*b3.GroupSize)
	in := begin(t, s, p)
	_, err := s.Ingest(t.Context(), b3.Sum(p), int64(len(p)))
	Want(t, err, status.Conflict)
	Put(t, s, p) // a put succeeds while an ingest runs
	Want(t, s.Delete(t.Context(), b3.Sum(p)), status.Conflict)
	in.Abort(nil)
	in.Abort(nil)
	Holds(t, s, p)
	again := begin(t, s, p)
	write(t, again, Items(t, p, int64(len(p)))...)
	if _, err := again.Commit(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(t.Context(), b3.Sum(p)); err != nil {
		t.Fatal(err)
	}
}

// testIngestApart: of an object that is half there by one ingest, another ingest stores all or a
// part. Each ends in every way, before or after the other.
func testIngestApart(t *testing.T, s *store.Store) {
	commit := func(t *testing.T, in *store.Ingest, isNew bool) {
		t.Helper()
		if info, err := in.Commit(t.Context(), false); err != nil || info.New != isNew {
			t.Errorf("commit says %+v, %v; want new %t", info, err, isNew)
		}
	}
	suspend := func(_ *testing.T, in *store.Ingest) { in.Suspend() }
	abort := func(_ *testing.T, in *store.Ingest) { in.Abort(nil) }
	for _, size := range []int{500, 9*b3.GroupSize + 1} {
		p := Bytes(uint64(size), size)
		all := Items(t, p, int64(size))
		half := Items(t, p, int64(size), b3.Range{Start: 0, End: int64(size / 2)},
			b3.Range{Start: int64(size) - 1, End: -1})
		for name, c := range map[string]struct {
			first, apart []b3.Proved
			end          func(t *testing.T, first, apart *store.Ingest)
			whole        bool
			left         int64 // bytes of a partial object that are left of the large one
		}{
			"apart is first": {all, all, func(t *testing.T, first, apart *store.Ingest) {
				commit(t, apart, true)
				commit(t, first, false)
			}, true, 0},
			"apart is second": {all, all, func(t *testing.T, first, apart *store.Ingest) {
				commit(t, first, true)
				commit(t, apart, false)
			}, true, 0},
			"the other stops after it": {half, all, func(t *testing.T, first, apart *store.Ingest) {
				commit(t, apart, true)
				suspend(t, first)
			}, true, 0},
			"the other stops before it": {half, all, func(t *testing.T, first, apart *store.Ingest) {
				suspend(t, first)
				commit(t, apart, true)
			}, true, 0},
			"the other is given up before it": {half, all, func(t *testing.T, first, apart *store.Ingest) {
				abort(t, first)
				commit(t, apart, true)
			}, true, 0},
			"apart stops": {half, half, func(t *testing.T, first, apart *store.Ingest) {
				suspend(t, apart)
				suspend(t, first)
			}, false, 5*b3.GroupSize + 1},
			"apart is given up": {all, half, func(t *testing.T, first, apart *store.Ingest) {
				abort(t, apart)
				commit(t, first, true)
			}, true, 0},
		} {
			first := begin(t, s, p)
			write(t, first, c.first...)
			apart, err := s.IngestApart(t.Context(), b3.Sum(p), int64(size))
			if err != nil {
				t.Fatal(err)
			}
			if n := apart.Held(); n != 0 || s.Stats().Ingests != 2 {
				t.Errorf("%s: %d bytes are there at its begin, %d ingests", name, n, s.Stats().Ingests)
			}
			o, err := apart.Open()
			if err != nil {
				t.Fatal(err)
			}
			write(t, apart, c.apart...)
			got, err := o.Reader().ReadGroup(0, make([]byte, b3.GroupSize))
			if err != nil || !bytes.Equal(got, p[:len(got)]) {
				t.Errorf("%s: group 0 reads as %d bytes, %v", name, len(got), err)
			}
			o.Close()
			c.end(t, first, apart)
			if st := s.Stats(); st.Leases != 0 || st.Ingests != 0 || size > b3.GroupSize && st.PartialBytes != c.left {
				t.Errorf("%s: stats say %+v, want %d partial bytes", name, st, c.left)
			}
			if !c.whole {
				_, err := s.Open(t.Context(), b3.Sum(p))
				Want(t, err, status.NotFound)
				again := begin(t, s, p)
				again.Abort(nil)
				continue
			}
			Holds(t, s, p)
			if err := s.Delete(t.Context(), b3.Sum(p)); err != nil {
				t.Fatal(err)
			}
		}
	}
	wantCount(t, s, 0)
}

func testIngestWaits(t *testing.T, s *store.Store) {
	for _, size := range []int{500, 5*b3.GroupSize + 1} {
		p := Bytes(uint64(size), size)
		in := begin(t, s, p)
		o, err := in.Open()
		if err != nil {
			t.Fatal(err)
		}
		Want(t, in.Wait(t.Context(), b3.Groups(int64(size))), status.BadRange)
		_, err = o.Reader().ReadGroup(0, make([]byte, b3.GroupSize))
		Want(t, err, status.NotFound)
		got := make(chan []byte, 1)
		go func() {
			var all []byte
			for g := range b3.Groups(int64(size)) {
				if err := in.Wait(t.Context(), g); err != nil {
					t.Error(err)
				}
				group, err := o.Reader().ReadGroup(g, make([]byte, b3.GroupSize))
				if err != nil {
					t.Error(err)
				}
				all = append(all, group...)
			}
			got <- all
		}()
		write(t, in, Items(t, p, int64(size))...)
		if !bytes.Equal(<-got, p) {
			t.Fatal("the waiting reader read other bytes")
		}
		if _, err := in.Commit(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		if err := in.Wait(t.Context(), 0); err != nil {
			t.Fatalf("wait after commit: %v", err)
		}
		if _, err := o.Reader().ReadGroup(0, make([]byte, b3.GroupSize)); err != nil {
			t.Fatalf("read after commit: %v", err)
		}
		Want(t, s.Delete(t.Context(), b3.Sum(p)), status.Conflict)
		o.Close()
		if err := s.Delete(t.Context(), b3.Sum(p)); err != nil {
			t.Fatal(err)
		}
	}
}

func testIngestAborted(t *testing.T, s *store.Store) {
	for _, size := range []int{500, 5*b3.GroupSize + 1} {
		p := Bytes(uint64(size), size)
		in := begin(t, s, p)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		Want(t, in.Wait(ctx, 0), status.Canceled)
		waited := make(chan error, 1)
		go func() { waited <- in.Wait(t.Context(), 0) }()
		why := status.Errorf(status.Upstream, "the peer lied")
		in.Abort(why)
		if err := <-waited; err != why {
			t.Fatalf("the wait ended with %v", err)
		}
		if err := in.Write(Items(t, p, int64(size))[0]); err != why {
			t.Fatalf("write says %v", err)
		}
		if _, err := in.Commit(t.Context(), false); err != why {
			t.Fatalf("commit says %v", err)
		}
		if _, err := in.Open(); err != why {
			t.Fatalf("open says %v", err)
		}
	}
	wantCount(t, s, 0)
	if st := s.Stats(); st.Leases != 0 || st.Ingests != 0 {
		t.Errorf("stats say %+v", st)
	}
}
