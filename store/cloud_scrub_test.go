package store_test

import (
	"os"
	"path/filepath"
	"testing"

	"allium/protocols/b3"
	"allium/store"
	"allium/store/storetest"
)

// TestS3Scrub: the background check reads what is here and nothing of the bucket,
// so it can do without it; whoever asks for a check reads that too.
func TestS3Scrub(t *testing.T) {
	t.Parallel()
	g := storetest.StartS3(t)
	cfg := cloudy(t.TempDir(), g.Config())
	cfg.ScrubRate, cfg.ScrubDuty = 1<<30, 1
	s, stop := storetest.Start(t, cfg, store.Deps{})
	large := storetest.Bytes(1, 9*b3.GroupSize)
	root := storetest.Put(t, s, large)
	var bytes int64
	for i := range 5 {
		p := storetest.Bytes(uint64(2+i), 9000+i)
		storetest.Put(t, s, p)
		bytes += int64(len(p))
	}
	key := g.Path(cfg.S3, largeKey("o", large))
	if err := os.Truncate(key, 100); err != nil {
		t.Fatal(err)
	}
	sc, err := s.ScrubNow(t.Context())
	if err != nil || sc.Objects != 5 || sc.Bytes != bytes || sc.Bad != 0 || sc.Progress != 1 {
		t.Errorf("%+v, %v", sc, err)
	}
	if n := s.Stats().Corrupt; n != 0 {
		t.Errorf("%d objects are marked", n)
	}
	if err := s.Verify(t.Context(), root); err == nil {
		t.Error("the damage in the bucket is not seen by who looks")
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	flip(t, filepath.Join(cfg.Dir, "seg", "0000000000000001.seg"), 600)
	s, _ = storetest.Start(t, cfg, store.Deps{})
	if sc, err := s.ScrubNow(t.Context()); err != nil || sc.Objects != 5 || sc.Bad != 1 {
		t.Errorf("with a wrong byte here: %+v, %v", sc, err)
	}
}

// flip changes a bit of a file.
func flip(t *testing.T, name string, at int64) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [1]byte
	if _, err := f.ReadAt(b[:], at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0x10
	if _, err := f.WriteAt(b[:], at); err != nil {
		t.Fatal(err)
	}
}
