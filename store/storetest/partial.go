package storetest

import (
	"bytes"
	"testing"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
)

// part writes the groups of p in ranges, and the last group, which proves the size.
func part(t *testing.T, in *store.Ingest, p []byte, ranges ...b3.Range) {
	t.Helper()
	size := int64(len(p))
	write(t, in, Items(t, p, size, append(ranges, b3.Range{Start: size - 1, End: size})...)...)
}

// wantPartial fails the test unless s has one partial object: p with held of its bytes.
func wantPartial(t *testing.T, s *store.Store, p []byte, held int64) {
	t.Helper()
	root := b3.Sum(p)
	info, err := s.Partials().Get(t.Context(), root)
	if err != nil || info.Root != root || info.Size != int64(len(p)) || info.Stored != held || info.Used == 0 {
		t.Fatalf("partial says %+v, %v; want %d of %d bytes", info, err, held, len(p))
	}
	has, err := s.Has(t.Context(), []b3.Root{root})
	if err != nil || has[0] != b3.Partial {
		t.Fatalf("has says %v, %v", has, err)
	}
	n := 0
	for listed, err := range s.Partials().All(t.Context()) {
		if err != nil || listed != info {
			t.Fatalf("%+v is listed, %v; want %+v", listed, err, info)
		}
		n++
	}
	if n > 1 {
		t.Fatalf("%d are listed", n)
	}
	if st := s.Stats(); st.PartialObjects != 1 || st.PartialBytes != held {
		t.Fatalf("stats say %+v, want one of %d bytes", st, held)
	}
}

// wantNoPartial fails the test unless s has no partial object, neither p nor another.
func wantNoPartial(t *testing.T, s *store.Store, p []byte) {
	t.Helper()
	_, err := s.Partials().Get(t.Context(), b3.Sum(p))
	Want(t, err, status.NotFound)
	_, err = s.OpenPartial(t.Context(), b3.Sum(p))
	Want(t, err, status.NotFound)
	for listed, err := range s.Partials().All(t.Context()) {
		t.Fatalf("%+v is listed, %v", listed, err)
	}
	if st := s.Stats(); st.PartialObjects != 0 || st.PartialBytes != 0 || st.Leases != 0 || st.Ingests != 0 {
		t.Fatalf("stats say %+v", st)
	}
}

// testSuspend: readers and the next ingest find the bytes of a suspended ingest.
func testSuspend(t *testing.T, s *store.Store) {
	const group = b3.GroupSize
	p := Bytes(31, 9*group+100)
	in := begin(t, s, p)
	part(t, in, p, b3.Range{Start: 2 * group, End: 4 * group})
	if lo, hi := in.Missing(0, 100); lo != 0 || hi != 2 {
		t.Fatalf("[%d, %d) is missing first", lo, hi)
	}
	if lo, hi := in.Missing(2, 4); lo != hi {
		t.Fatalf("[%d, %d) is missing of what is here", lo, hi)
	}
	if lo, hi := in.Missing(3, 7); lo != 4 || hi != 7 {
		t.Fatalf("[%d, %d) is missing after group 3", lo, hi)
	}
	if !in.Has(9) || !in.Has(2) || in.Has(4) || in.Has(10) || in.Held() != 2*group+100 {
		t.Fatal("the stored groups are not those that were written")
	}
	waited := make(chan error, 1)
	go func() { waited <- in.Wait(t.Context(), 5) }()
	in.Suspend()
	in.Suspend()
	in.Abort(nil)
	Want(t, <-waited, status.Canceled)
	if err := in.Wait(t.Context(), 3); err != nil {
		t.Fatalf("wait for what is here: %v", err)
	}
	Want(t, in.Write(Items(t, p, int64(len(p)))[0]), status.Canceled)
	_, err := in.Commit(t.Context(), false)
	Want(t, err, status.Canceled)
	_, err = in.Open()
	Want(t, err, status.Canceled)
	wantPartial(t, s, p, 2*group+100)
	wantCount(t, s, 0)
	_, err = s.Open(t.Context(), b3.Sum(p))
	Want(t, err, status.NotFound)
	_, err = s.Ingest(t.Context(), b3.Sum(p), int64(len(p))+1)
	Want(t, err, status.Upstream)

	o, err := s.OpenPartial(t.Context(), b3.Sum(p))
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	Want(t, s.Partials().Remove(t.Context(), b3.Sum(p)), status.Conflict)
	for _, c := range []struct {
		start, end int64
		want       bool
	}{
		{2 * group, 4 * group, true}, {2*group + 1, 2*group + 2, true}, {2*group - 1, 2*group + 2, false},
		{2 * group, 4*group + 1, false},
		{9 * group, 9*group + 100, true}, {9 * group, 9*group + 101, false}, {0, 0, true}, {-1, 0, false},
		{3 * group, 2 * group, false},
	} {
		if got := o.Covers(c.start, c.end); got != c.want {
			t.Errorf("covers [%d, %d): %t", c.start, c.end, got)
		}
	}
	got := make([]byte, 2*group)
	if _, err := o.Reader().ReadAt(got, 2*group); err != nil || !bytes.Equal(got, p[2*group:4*group]) {
		t.Fatalf("what is here cannot be read: %v", err)
	}
	for _, g := range []int64{0, 4, 8} {
		_, err = o.Reader().ReadGroup(g, make([]byte, group))
		Want(t, o.Failed(err), status.NotFound)
	}

	in = begin(t, s, p)
	if size, proved := in.Size(); size != int64(len(p)) || !proved || in.Held() != 2*group+100 {
		t.Fatalf("it goes on with %d bytes held, size proved: %t", in.Held(), proved)
	}
	for lo, hi := in.Missing(0, 10); lo < hi; lo, hi = in.Missing(0, 10) {
		write(t, in, Items(t, p, int64(len(p)), b3.Range{Start: lo * group, End: min(hi*group, int64(len(p)))})...)
	}
	if !o.Covers(0, int64(len(p))) {
		t.Error("the reader does not see what arrived")
	}
	if info, err := in.Commit(t.Context(), true); err != nil || !info.New {
		t.Fatalf("commit says %+v, %v", info, err)
	}
	Holds(t, s, p)
	all := make([]byte, len(p))
	if _, err := o.Reader().ReadAt(all, 0); err != nil || !bytes.Equal(all, p) {
		t.Fatalf("the reader lost it: %v", err)
	}
	o.Close()
	wantNoPartial(t, s, p)
	if err := s.Verify(t.Context(), b3.Sum(p)); err != nil {
		t.Fatal(err)
	}
}

// testForgotten: the store keeps no partial object after an ingest that wrote nothing, did not
// prove the size, was small, was aborted or was removed, or once the object is stored whole.
func testForgotten(t *testing.T, s *store.Store) {
	p := Bytes(32, 5*b3.GroupSize)
	in := begin(t, s, p) // nothing is written
	in.Suspend()
	wantNoPartial(t, s, p)

	in = begin(t, s, p) // the size is not proved
	write(t, in, Items(t, p, int64(len(p)), b3.Range{Start: 0, End: 1})...)
	_, err := s.OpenPartial(t.Context(), b3.Sum(p))
	Want(t, err, status.NotFound)
	if has, err := s.Has(t.Context(), []b3.Root{b3.Sum(p)}); err != nil || has[0] != b3.Absent {
		t.Fatalf("has says %v, %v", has, err)
	}
	in.Suspend()
	wantNoPartial(t, s, p)

	little := Bytes(33, 100)
	in = begin(t, s, little)
	write(t, in, Items(t, little, 100)...)
	in.Suspend()
	wantNoPartial(t, s, little)

	in = begin(t, s, p)
	part(t, in, p)
	in.Suspend()
	wantPartial(t, s, p, b3.GroupSize)
	in = begin(t, s, p)
	part(t, in, p, b3.Range{Start: 0, End: 1})
	in.Abort(nil)
	wantNoPartial(t, s, p)

	in = begin(t, s, p)
	part(t, in, p)
	in.Suspend()
	if err := s.Partials().Remove(t.Context(), b3.Sum(p)); err != nil {
		t.Fatal(err)
	}
	Want(t, s.Partials().Remove(t.Context(), b3.Sum(p)), status.NotFound)
	wantNoPartial(t, s, p)

	in = begin(t, s, p) // then a put stores the whole object
	part(t, in, p)
	in.Suspend()
	Put(t, s, p)
	Holds(t, s, p)
	wantNoPartial(t, s, p)
}
