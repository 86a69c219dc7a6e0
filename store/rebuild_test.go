package store_test

import (
	"bytes"
	"context"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
	"allium/store/disk"
	"allium/store/storetest"
)

// contents is what a test store holds.
type contents struct {
	objects [][]byte
	removed [][]byte
	pinned  b3.Root
	dropped b3.Root
}

// furnish puts objects of every kind into s, over several segments, and takes
// some away.
func furnish(t *testing.T, s *store.Store) contents {
	t.Helper()
	var c contents
	for i, size := range []int{0, 1, 5000, 60000, b3.GroupSize, b3.GroupSize + 1, 9*b3.GroupSize + 7, 60001, 60002,
		60003, 60004, 60005, 60006, 60007, 60008} {
		c.objects = append(c.objects, storetest.Bytes(uint64(i), size))
	}
	c.removed = [][]byte{storetest.Bytes(100, 3000), storetest.Bytes(101, 4*b3.GroupSize)}
	for _, p := range c.removed {
		storetest.Put(t, s, p)
	}
	for i, p := range c.objects {
		root := storetest.Put(t, s, p)
		if i == 3 {
			for _, p := range c.removed {
				if err := s.Delete(t.Context(), b3.Sum(p)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if i == 6 {
			c.pinned = root
		}
		if i == 2 {
			c.dropped = root
		}
	}
	for _, root := range []b3.Root{c.pinned, c.dropped} {
		if err := s.Pin(t.Context(), root, store.PinOptions{Label: "kept"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Unpin(t.Context(), c.dropped, "kept"); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c contents) check(t *testing.T, s *store.Store) {
	t.Helper()
	for _, p := range c.objects {
		storetest.Holds(t, s, p)
	}
	for _, p := range c.removed {
		_, err := storetest.Get(t, s, b3.Sum(p))
		storetest.Want(t, err, status.NotFound)
	}
	if n := s.Stats().Objects; n != int64(len(c.objects)) {
		t.Errorf("%d objects, want %d", n, len(c.objects))
	}
	var pins []b3.Root
	for p, err := range s.Pins(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		pins = append(pins, p.Root)
	}
	if !slices.Equal(pins, []b3.Root{c.pinned}) {
		t.Errorf("pins are %v", pins)
	}
	for root, err := range storetest.VerifyAll(t.Context(), s) {
		if err != nil {
			t.Errorf("%s: %v", root, err)
		}
	}
}

func rebuilt(t *testing.T, cfg store.Config, deps store.Deps) disk.RebuildReport {
	t.Helper()
	told := 0
	r, err := store.Rebuild(t.Context(), cfg, deps, func(disk.RebuildProgress) { told++ })
	if err != nil {
		t.Fatal(err)
	}
	if told == 0 {
		t.Error("nothing was told of the progress")
	}
	return r
}

// TestRebuildEmbedded loses the index, and all outboards.
func TestRebuildEmbedded(t *testing.T) {
	t.Parallel()
	disk := vfs.NewMem()
	deps := store.Deps{FS: disk}
	s, stop := storetest.Start(t, tiny(), deps)
	c := furnish(t, s)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	for _, round := range []string{"whole", "no index", "no outboards", "again"} {
		switch round {
		case "no index":
			if err := disk.RemoveAll("/store/index"); err != nil {
				t.Fatal(err)
			}
		case "no outboards":
			h := b3.Sum(c.objects[6]).Hex()
			if err := disk.Remove("/store/obj/" + h[:2] + "/" + h + ".ob"); err != nil {
				t.Fatal(err)
			}
		}
		r := rebuilt(t, tiny(), deps)
		if r.Objects != int64(len(c.objects)) || r.Pins != 1 ||
			r.Adopted+r.Damaged+r.Missing+r.Torn != 0 || r.Segments < 2 {
			t.Fatalf("%s: the report is %+v", round, r)
		}
		s, stop = storetest.Start(t, tiny(), deps)
		c.check(t, s)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRebuildDamage: what is damaged is known as such, what stands behind
// damage in a segment is found, and an object without a record is adopted.
func TestRebuildDamage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cfg := embedded(dir)
	s, stop := storetest.Start(t, cfg, store.Deps{})
	var small [][]byte
	for i := range 5 {
		small = append(small, storetest.Bytes(uint64(i), 2000))
		storetest.Put(t, s, small[i])
	}
	damaged, missing, adopted := storetest.Bytes(10, 3*b3.GroupSize), storetest.Bytes(11, 4*b3.GroupSize),
		storetest.Bytes(12, 5*b3.GroupSize)
	storetest.Put(t, s, damaged)
	storetest.Put(t, s, missing)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	large := func(p []byte) string {
		h := b3.Sum(p).Hex()
		return dir + "/obj/" + h[:2] + "/" + h
	}
	spoiled := slices.Clone(damaged)
	spoiled[1000] ^= 1
	segment := dir + "/seg/0000000000000001.seg"
	log, err := os.ReadFile(segment)
	if err != nil {
		t.Fatal(err)
	}
	clear(log[bytes.Index(log, small[1])-68 : bytes.Index(log, small[1])]) // the record's header
	for _, err := range []error{
		os.WriteFile(large(damaged), spoiled, 0o600), os.Remove(large(missing)),
		os.WriteFile(large(adopted), adopted, 0o600), os.WriteFile(segment, log, 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	r := rebuilt(t, cfg, store.Deps{})
	if r.Adopted != 1 || r.Damaged != 1 || r.Missing != 1 || r.Torn != 1 || r.Objects != 7 {
		t.Fatalf("the report is %+v", r)
	}
	s, _ = storetest.Start(t, cfg, store.Deps{})
	for i, p := range small {
		if i != 1 {
			storetest.Holds(t, s, p)
		}
	}
	storetest.Holds(t, s, adopted)
	for _, p := range [][]byte{damaged, missing} {
		_, err := storetest.Get(t, s, b3.Sum(p))
		storetest.Want(t, err, status.Corrupt)
		storetest.Put(t, s, p)
		storetest.Holds(t, s, p)
	}
}

// TestRebuildKeepsDamage: what was open before a rebuild is open after it, also
// when the rebuild finds more.
func TestRebuildKeepsDamage(t *testing.T) {
	t.Parallel()
	deps := store.Deps{FS: vfs.NewMem()}
	s, stop := storetest.Start(t, tiny(), deps)
	for i := range 5 {
		storetest.Put(t, s, storetest.Bytes(uint64(i), 2000))
	}
	was := openDamage(7)
	s.AddDamage(was)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	const segment = "/store/seg/0000000000000001.seg"
	recs := recordsOf(read(t, deps.FS, segment))
	flipByte(t, deps.FS, segment, recs[2].body) // of an object
	if r := rebuilt(t, tiny(), deps); r.Torn != 1 {
		t.Fatalf("the report is %+v", r)
	}
	s, _ = storetest.Start(t, tiny(), deps)
	if open, unknown := s.OpenDamage(); open != 2 || unknown != 1 {
		t.Errorf("%d are open, %d unknown: %+v", open, unknown, s.Damage())
	}
	storetest.Want(t, s.UnknownLoss(), status.NotReady)
}

func TestRebuildRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, err := store.Rebuild(t.Context(), embedded(dir), store.Deps{}, nil)
	storetest.Want(t, err, status.NotFound)
	storetest.Start(t, embedded(dir), store.Deps{})
	_, err = store.Rebuild(t.Context(), embedded(dir), store.Deps{}, nil)
	storetest.Want(t, err, status.Busy)
	memory := store.DefaultConfig()
	memory.Backend = store.BackendMemory
	_, err = store.Rebuild(t.Context(), memory, store.Deps{}, nil)
	storetest.Want(t, err, status.Amnesia)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	other := t.TempDir()
	s, stop := storetest.Start(t, embedded(other), store.Deps{})
	storetest.Put(t, s, []byte("kept"))
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	_, err = store.Rebuild(ctx, embedded(other), store.Deps{}, nil)
	storetest.Want(t, err, status.Canceled)
	s, _ = storetest.Start(t, embedded(other), store.Deps{})
	storetest.Holds(t, s, []byte("kept"))
}

// TestRebuildS3 loses the machine: with the bucket alone everything is back.
func TestRebuildS3(t *testing.T) {
	t.Parallel()
	g := storetest.StartS3(t)
	s3 := g.Config()
	s3.ShipAfter = 100 * time.Millisecond
	s, stop := storetest.Start(t, cloudy("/store", s3), store.Deps{FS: vfs.NewMem()})
	c := furnish(t, s)
	gone(t, g.Path(s3, largeKey("o", c.removed[1])))
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time of what the first one wrote
		deps := store.Deps{FS: vfs.NewMem()}
		_, _, err := storetest.Try(t, cloudy("/store", s3), deps)
		storetest.Want(t, err, status.Conflict) // not without a rebuild
		r := rebuilt(t, cloudy("/store", s3), deps)
		if r.Objects != int64(len(c.objects)) || r.Pins != 1 || r.Fetched != r.Segments ||
			r.Fetched < 2 || r.Node == "" ||
			r.Adopted+r.Damaged+r.Missing != 0 {
			t.Fatalf("the report is %+v", r)
		}
		s, stop = storetest.Start(t, cloudy("/store", s3), deps)
		c.check(t, s)
		more := storetest.Bytes(uint64(len(c.objects)+500), 50000)
		storetest.Put(t, s, more)
		c.objects = append(c.objects, more)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRebuildS3Adopts: a node takes what others put into a bucket that they
// share.
func TestRebuildS3Adopts(t *testing.T) {
	t.Parallel()
	g := storetest.StartS3(t)
	s3 := g.Config()
	s3.Shared, s3.Node = true, "a"
	p := storetest.Bytes(1, 6*b3.GroupSize)
	a, _ := storetest.Start(t, cloudy("/store", s3), store.Deps{FS: vfs.NewMem()})
	storetest.Put(t, a, p)
	s3.Node = "b"
	deps := store.Deps{FS: vfs.NewMem()}
	_, stop := storetest.Start(t, cloudy("/store", s3), deps)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if r := rebuilt(t, cloudy("/store", s3), deps); r.Adopted != 1 {
		t.Fatalf("the report is %+v", r)
	}
	b, _ := storetest.Start(t, cloudy("/store", s3), deps)
	storetest.Holds(t, b, p)
	storetest.Holds(t, a, p)
}
