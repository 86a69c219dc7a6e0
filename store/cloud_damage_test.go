package store_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"allium/internal/testkit"
	"allium/protocols/b3"
	"allium/store"
	"allium/store/storetest"
)

// shipping is a store in a directory whose segments are in the bucket soon, and
// the directory where the server keeps them.
func shipping(t *testing.T, g *storetest.S3) (cfg store.Config, there string) {
	t.Helper()
	cfg = cloudy(t.TempDir(), g.Config())
	cfg.S3.Node, cfg.S3.ShipAfter = "n1", 100*time.Millisecond
	return cfg, g.Path(cfg.S3, "s/n1")
}

// named lists the files of a directory.
func named(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, f := range files {
		names = append(names, f.Name())
	}
	return names
}

const firstSegment = "0000000000000001.seg"

// TestS3MissingSegment: a segment that is missing here comes back from the bucket
// when the store opens, and is not deleted there.
func TestS3MissingSegment(t *testing.T) {
	t.Parallel()
	g := storetest.StartS3(t)
	cfg, there := shipping(t, g)
	s, stop := storetest.Start(t, cfg, store.Deps{})
	for i := range 20 { // several segments
		storetest.Put(t, s, storetest.Bytes(uint64(i), 60<<10))
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(cfg.Dir, "seg", firstSegment)); err != nil {
		t.Fatal(err)
	}
	s, stop = storetest.Start(t, cfg, store.Deps{})
	for i := range 20 {
		storetest.Holds(t, s, storetest.Bytes(uint64(i), 60<<10))
	}
	if open, _ := s.OpenDamage(); open != 0 {
		t.Errorf("the damage is %+v", s.Damage())
	}
	if err := stop(); err != nil { // ships once more
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(there, firstSegment)); err != nil {
		t.Errorf("the bucket has lost it: %v", err)
	}
}

// TestS3MissingSegmentAway: while the bucket is away the segment is damage, and
// what the bucket has of it stays when it is back, and comes back with the next
// start.
func TestS3MissingSegmentAway(t *testing.T) {
	t.Parallel()
	g := storetest.StartS3(t)
	cfg, there := shipping(t, g)
	s, stop := storetest.Start(t, cfg, store.Deps{})
	for i := range 20 {
		storetest.Put(t, s, storetest.Bytes(uint64(i), 60<<10))
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(cfg.Dir, "seg", firstSegment)); err != nil {
		t.Fatal(err)
	}
	g.Kill()
	s, stop = storetest.Start(t, cfg, store.Deps{})
	if open, _ := s.OpenDamage(); open == 0 {
		t.Error("a missing segment is no damage")
	}
	g.Start(t)
	testkit.Eventually(t, "the bucket is back", func() bool { return s.Stats().BucketErr == nil })
	p := storetest.Bytes(100, 5000)
	storetest.Put(t, s, p)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(there, firstSegment)); err != nil {
		t.Errorf("the bucket has lost it: %v", err)
	}
	s, _ = storetest.Start(t, cfg, store.Deps{})
	for i := range 20 {
		storetest.Holds(t, s, storetest.Bytes(uint64(i), 60<<10))
	}
	if open, _ := s.OpenDamage(); open != 0 {
		t.Errorf("the segment is back, and the damage is %+v", s.Damage())
	}
}

// TestS3DamagedSegment: a segment that rotted here does not replace the good
// parts of it in the bucket, and the damage is told.
func TestS3DamagedSegment(t *testing.T) {
	t.Parallel()
	g := storetest.StartS3(t)
	cfg, there := shipping(t, g)
	s, stop := storetest.Start(t, cfg, store.Deps{})
	p := storetest.Bytes(1, 3000)
	storetest.Put(t, s, p)
	testkit.Eventually(t, "a part in the bucket", func() bool {
		for _, name := range named(t, there) {
			if all, err := os.ReadFile(filepath.Join(there, name)); err == nil && bytes.Contains(all, p) {
				return true
			}
		}
		return false
	})
	flipAfter(t, filepath.Join(cfg.Dir, "seg"), string(p[:100]))
	for i := range 20 { // the segment is sealed
		storetest.Put(t, s, storetest.Bytes(uint64(100+i), 60<<10))
	}
	testkit.Eventually(t, "the damage is told", func() bool { n, _ := s.OpenDamage(); return n > 0 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	d := s.Damage()[0]
	if len(d.Roots) != 1 || d.Roots[0] != b3.Sum(p) || !strings.Contains(d.Reason, "bucket") {
		t.Errorf("the damage is %+v", d)
	}
	var parts []byte
	for _, name := range named(t, there) {
		if name == firstSegment {
			t.Error("the damaged segment is in the bucket")
		}
		if strings.HasPrefix(name, firstSegment+"+") {
			all, err := os.ReadFile(filepath.Join(there, name))
			if err != nil {
				t.Fatal(err)
			}
			parts = append(parts, all...)
		}
	}
	if !bytes.Contains(parts, p) || !bytes.Contains(parts, storetest.Bytes(100, 60<<10)) {
		t.Errorf("the parts in the bucket have %d bytes, not all that was written", len(parts))
	}
}
