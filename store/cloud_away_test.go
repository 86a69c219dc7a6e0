package store_test

import (
	"testing"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
	"allium/store/storetest"
)

// download writes all of p to a new ingest.
func download(t *testing.T, s *store.Store, p []byte) *store.Ingest {
	t.Helper()
	in, err := s.Ingest(t.Context(), b3.Sum(p), int64(len(p)))
	if err != nil {
		t.Fatal(err)
	}
	for _, item := range storetest.Items(t, p, int64(len(p))) {
		if err := in.Write(item); err != nil {
			t.Fatal(err)
		}
	}
	return in
}

// TestS3CommitAway: a download that the bucket cannot take is kept whole, also
// over a restart, and the next one only has to commit.
func TestS3CommitAway(t *testing.T) {
	t.Parallel()
	g := storetest.StartS3(t)
	cfg := cloudy(t.TempDir(), g.Config())
	s, stop := storetest.Start(t, cfg, store.Deps{})
	p := storetest.Bytes(6, 40*b3.GroupSize+9)
	root, size := b3.Sum(p), int64(len(p))
	kept := func() {
		t.Helper()
		info, err := s.Partial(t.Context(), root)
		if err != nil || info.Held != size || info.Size != size {
			t.Fatalf("%+v is kept, %v; want all %d bytes", info, err, size)
		}
		_, err = s.Stat(t.Context(), root)
		storetest.Want(t, err, status.NotFound)
	}
	g.Kill()
	for range 2 {
		in := download(t, s, p)
		_, err := in.Commit(t.Context(), false)
		storetest.Want(t, err, status.Upstream)
		kept()
	}
	o, err := s.OpenPartial(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	if !o.Covers(0, size) {
		t.Error("what is kept cannot be read")
	}
	o.Close()
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	g.Start(t)
	s, _ = storetest.Start(t, cfg, store.Deps{})
	kept()
	in, err := s.Ingest(t.Context(), root, size)
	if err != nil {
		t.Fatal(err)
	}
	if lo, hi := in.Missing(0, b3.Groups(size)); lo != hi {
		t.Fatalf("[%d, %d) must be fetched again", lo, hi)
	}
	if _, err := in.Commit(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	storetest.Holds(t, s, p)
	if st := s.Stats(); st.PartialObjects != 0 || st.PartialBytes != 0 {
		t.Errorf("stats say %+v", st)
	}
}
