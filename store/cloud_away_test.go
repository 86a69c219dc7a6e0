package store_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"allium/internal/testkit"
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
		info, err := s.Partials().Get(t.Context(), root)
		if err != nil || info.Stored != size || info.Size != size {
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

// TestS3StartAway: a node that was in its bucket starts without it, serves what
// is here, says what it cannot do, and goes on by itself when the bucket is back.
func TestS3StartAway(t *testing.T) {
	t.Parallel()
	g := storetest.StartS3(t)
	cfg := cloudy(t.TempDir(), g.Config())
	cfg.S3.Node = "n"
	s, stop := storetest.Start(t, cfg, store.Deps{})
	large, removed, part := storetest.Bytes(1, 5*b3.GroupSize), storetest.Bytes(2, 6*b3.GroupSize),
		storetest.Bytes(3, 7*b3.GroupSize)
	small := storetest.Bytes(4, 5000)
	for _, p := range [][]byte{large, removed, small} {
		storetest.Put(t, s, p)
	}
	download(t, s, part).Suspend()
	if err := s.Stats().BucketErr; err != nil {
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	g.Kill()
	fresh := cfg
	fresh.Dir, fresh.S3.Node = t.TempDir(), "m"
	_, _, err := storetest.Try(t, fresh, store.Deps{})
	storetest.Want(t, err, status.Upstream) // nothing is served there: the settings may be wrong

	s, _ = storetest.Start(t, cfg, store.Deps{})
	storetest.Want(t, s.Stats().BucketErr, status.TransportDown)
	storetest.Holds(t, s, small)
	_, err = storetest.Get(t, s, b3.Sum(large))
	storetest.Want(t, err, status.TransportDown)
	_, err = s.PutBytes(t.Context(), storetest.Bytes(5, 4*b3.GroupSize), store.PutOptions{})
	storetest.Want(t, err, status.TransportDown)
	o, err := s.OpenPartial(t.Context(), b3.Sum(part))
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(part))
	if _, err := o.Reader().ReadAt(got, 0); err != nil || !bytes.Equal(got, part) {
		t.Errorf("the part reads %v", err)
	}
	o.Close()
	later := storetest.Bytes(6, 6000)
	storetest.Put(t, s, later)
	if err := s.Delete(t.Context(), b3.Sum(removed)); err != nil {
		t.Fatal(err)
	}

	g.Start(t)
	testkit.Eventually(t, "the bucket found again", func() bool { return s.Stats().BucketErr == nil })
	storetest.Holds(t, s, large)
	storetest.Put(t, s, storetest.Bytes(5, 4*b3.GroupSize))
	gone(t, g.Path(cfg.S3, largeKey("o", removed)))
	testkit.Eventually(t, "a small object in the bucket", func() bool {
		names, _ := filepath.Glob(g.Path(cfg.S3, "s/n/*"))
		for _, name := range names {
			if p, _ := os.ReadFile(name); bytes.Contains(p, later) {
				return true
			}
		}
		return false
	})
	if st := s.Stats(); st.Corrupt != 0 {
		t.Errorf("stats say %+v", st)
	}

	// The same while it runs.
	g.Kill()
	_, err = storetest.Get(t, s, b3.Sum(large))
	storetest.Want(t, err, status.Upstream)
	storetest.Want(t, s.Stats().BucketErr, status.Upstream)
	g.Start(t)
	testkit.Eventually(t, "the bucket found again", func() bool { return s.Stats().BucketErr == nil })
	storetest.Holds(t, s, large)
}

// TestS3RefusedLater: a node that started without its bucket stops when it finds
// there that it may not use it.
func TestS3RefusedLater(t *testing.T) {
	t.Parallel()
	g := storetest.StartS3(t)
	cfg := cloudy(t.TempDir(), g.Config())
	_, stop := storetest.Start(t, cfg, store.Deps{})
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	g.Kill()
	s, stop := storetest.Start(t, cfg, store.Deps{})
	if err := os.WriteFile(g.Path(cfg.S3, "n/other"), []byte("allium bucket 1\nexclusive\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	g.Start(t)
	testkit.Eventually(t, "the end beside another node", func() bool {
		_, err := s.Stat(t.Context(), b3.Sum(nil))
		return status.Of(err) == status.Draining
	})
	storetest.Want(t, stop(), status.Conflict)
}
