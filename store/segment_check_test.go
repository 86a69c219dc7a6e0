package store_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"allium/internal/testkit"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
	"allium/store/meta"
	"allium/store/storetest"
)

// TestCheckLog: a header that is damaged while the index knows its record is
// found, the record is copied, and the file is kept beside the log.
func TestCheckLog(t *testing.T) {
	if testing.Short() {
		t.Skip("reads and writes a log again and again; TestKillDownload and TestScrubRaces have its goroutines")
	}
	t.Parallel()
	disk := vfs.NewMem()
	s, stop := storetest.Start(t, tiny(), store.Deps{FS: disk})
	var all [][]byte
	for i := range 40 {
		all = append(all, storetest.Bytes(uint64(i), 40_000))
		storetest.Put(t, s, all[i])
	}
	if n, err := s.CheckLog(t.Context()); err != nil || n < 3 || len(s.Damage()) > 0 {
		t.Fatalf("%d segments, %v, damage %+v", n, err, s.Damage())
	}
	const name = "/store/seg/0000000000000001.seg"
	p := read(t, disk, name)
	recs := recordsOf(p)
	for i := recs[2].off; i < recs[2].body; i++ {
		flipByte(t, disk, name, i)
	}
	if _, err := s.CheckLog(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d := s.Damage(); len(d) != 1 || d[0].State != meta.DamageMended || d[0].Offset != recs[2].off {
		t.Fatalf("the damage is %+v", d)
	}
	put := storetest.Bytes(1000, 10) // wakes the compactor
	storetest.Put(t, s, put)
	testkit.Eventually(t, "the segment is set aside", func() bool {
		if err := s.Delete(t.Context(), b3.Sum(put)); err != nil {
			t.Fatal(err)
		}
		storetest.Put(t, s, put)
		names, err := disk.List("/store/quarantine")
		return err == nil && len(names) == 1
	})
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if err := disk.RemoveAll("/store/index"); err != nil {
		t.Fatal(err)
	}
	s, _ = storetest.Start(t, tiny(), store.Deps{FS: disk})
	for _, p := range all {
		storetest.Holds(t, s, p)
	}
	if open, _ := s.OpenDamage(); open > 0 {
		t.Fatalf("a new index finds damage: %+v", s.Damage())
	}
}

// TestSegmentLost: a segment that is missing is told, what the index knew of it is
// marked, pins and large objects whose records it had are written again, and once
// the loss is accepted nothing is said of it any more.
func TestSegmentLost(t *testing.T) {
	t.Parallel()
	disk := vfs.NewCrashableMem()
	s, stop := storetest.Start(t, tiny(), store.Deps{FS: disk})
	first, large := storetest.Bytes(1, 30_000), storetest.Bytes(2, 3*b3.GroupSize)
	storetest.Put(t, s, first)
	root := storetest.Put(t, s, large)
	if err := s.Pin(t.Context(), root, store.PinOptions{Label: "kept"}); err != nil {
		t.Fatal(err)
	}
	for i := range 40 {
		storetest.Put(t, s, storetest.Bytes(uint64(10+i), 40_000))
	}
	had := s.Stats().Usage.Segments
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if err := disk.Remove("/store/seg/0000000000000001.seg"); err != nil {
		t.Fatal(err)
	}
	s, stop = storetest.Start(t, tiny(), store.Deps{FS: disk})
	if open, unknown := s.OpenDamage(); open != 1 || unknown != 0 {
		t.Fatalf("%d open, %d unknown: %+v", open, unknown, s.Damage())
	}
	testkit.Eventually(t, "what the segment held is marked or written again, and it is no part of the log any more",
		func() bool { return s.Stats().Usage.Segments == had-1 })
	if n := s.Stats().Corrupt; n <= 5 {
		t.Errorf("%d objects are marked", n)
	}
	_, err := s.Open(t.Context(), b3.Sum(first))
	storetest.Want(t, err, status.Corrupt)
	storetest.Holds(t, s, large)
	if n, err := s.AcceptDamage(t.Context()); len(n) != 1 || err != nil {
		t.Fatalf("accepted %+v, %v", n, err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if err := disk.RemoveAll("/store/index"); err != nil { // the log has everything again
		t.Fatal(err)
	}
	s, _ = storetest.Start(t, tiny(), store.Deps{FS: disk})
	if open, _ := s.OpenDamage(); open > 0 {
		t.Fatalf("a new index finds damage: %+v", s.Damage())
	}
	storetest.Holds(t, s, large)
	pins := 0
	for p, err := range s.Pins(t.Context()) {
		if err != nil || p.Root != root || p.Label != "kept" {
			t.Fatalf("a pin is %+v, %v", p, err)
		}
		pins++
	}
	if pins != 1 {
		t.Fatalf("%d pins", pins)
	}
}

// TestCompactionKeepsUnpin: what a removal of a pin says is carried on when one byte
// of it is wrong; when more is wrong the segment is put aside, and it is told.
func TestCompactionKeepsUnpin(t *testing.T) {
	t.Parallel()
	for _, wrong := range []int64{1, 5} { // bytes
		disk := vfs.NewMem()
		cfg := tiny()
		s, stop := storetest.Start(t, cfg, store.Deps{FS: disk})
		content := func(i int) []byte { return storetest.Bytes(uint64(i), 40_000) }
		pinned := storetest.Put(t, s, content(0))
		if err := s.Pin(t.Context(), pinned, store.PinOptions{Label: "label"}); err != nil {
			t.Fatal(err)
		}
		const first, second = "/store/seg/0000000000000001.seg", "/store/seg/0000000000000002.seg"
		n := 1
		for ; ; n++ {
			storetest.Put(t, s, content(n))
			if _, err := disk.Stat(second); err == nil {
				break
			}
		}
		if err := s.Unpin(t.Context(), pinned, "label"); err != nil {
			t.Fatal(err)
		}
		begun := n
		for n++; ; n++ {
			storetest.Put(t, s, content(n))
			if _, err := disk.Stat("/store/seg/0000000000000003.seg"); err == nil {
				break
			}
		}
		for _, r := range recordsOf(read(t, disk, second)) {
			if r.kind == 4 {
				for i := range wrong {
					flipByte(t, disk, second, r.body+1+i)
				}
			}
		}
		for i := begun; i < n; i++ {
			if err := s.Delete(t.Context(), b3.Sum(content(i))); err != nil {
				t.Fatal(err)
			}
		}
		testkit.Eventually(t, "the segment is compacted", func() bool {
			_, err := disk.Stat(second)
			return err != nil
		})
		if _, err := disk.Stat(first); err != nil {
			t.Fatal(err)
		}
		aside, told := s.Stats().Usage.QuarantineFiles, len(s.Damage())
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if wrong > 1 {
			if aside != 1 || told != 1 {
				t.Errorf("%d files are put aside, %d findings told", aside, told)
			}
			continue
		}
		if err := disk.RemoveAll("/store/index"); err != nil {
			t.Fatal(err)
		}
		s, _ = storetest.Start(t, cfg, store.Deps{FS: disk})
		for p := range s.Pins(t.Context()) {
			t.Errorf("the pin is back: %+v", p)
		}
	}
}

// TestRetiredDamagedSegment: a crash between the record that a damaged segment is
// retired and its move to quarantine/ does not remove what could not be read of it.
func TestRetiredDamagedSegment(t *testing.T) {
	t.Parallel()
	const first = "/store/seg/0000000000000001.seg"
	disk := vfs.NewCrashableMem()
	var mu sync.Mutex
	var crashed *vfs.MemFS
	var deleted, deletedBeforeCrash int // removals that returned
	fs := errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		mu.Lock()
		defer mu.Unlock()
		if op.Kind == errorfs.OpRename && op.Path == first && crashed == nil {
			crashed, deletedBeforeCrash = disk.CrashClone(vfs.CrashCloneCfg{}), deleted
		}
		return nil
	}))
	s, stop := storetest.Start(t, tiny(), store.Deps{FS: fs})
	content := func(i int) []byte { return storetest.Bytes(uint64(i), 40_000) }
	for i := range 20 {
		storetest.Put(t, s, content(i))
	}
	recs := recordsOf(read(t, disk, first))
	for i := recs[3].off; i < recs[3].body; i++ {
		flipByte(t, disk, first, i)
	}
	f, err := disk.OpenReadWrite(first, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	f.Close()
	for i := range 12 {
		if err := s.Delete(t.Context(), b3.Sum(content(i))); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		deleted++
		mu.Unlock()
	}
	testkit.Eventually(t, "the segment is put aside", func() bool { return s.Stats().Usage.QuarantineFiles == 1 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, index := range []bool{true, false} {
		again := vfs.NewMem()
		if _, err := vfs.Clone(crashed, again, "/store", "/store"); err != nil {
			t.Fatal(err)
		}
		if !index {
			if err := again.RemoveAll("/store/index"); err != nil {
				t.Fatal(err)
			}
		}
		s, _ := storetest.Start(t, tiny(), store.Deps{FS: again})
		names, err := again.List("/store/quarantine")
		if err != nil || len(names) != 1 || !strings.HasPrefix(names[0], "0000000000000001.seg") {
			t.Errorf("quarantine/ holds %v, %v", names, err)
		}
		if _, err := again.Stat(first); err == nil {
			t.Error("the segment is still part of the log")
		}
		if open, _ := s.OpenDamage(); open > 0 {
			t.Errorf("the damage is %+v", s.Damage())
		}
		for i := range 20 {
			if i >= 12 {
				storetest.Holds(t, s, content(i))
			} else if _, err := storetest.Get(t, s, b3.Sum(content(i))); err == nil && i < deletedBeforeCrash {
				t.Errorf("object %d is back", i)
			}
		}
	}
}

// TestRetiredDamagedSegmentStays: where quarantine/ is full a damaged segment stays,
// compaction goes on with others, and what was removed does not come back.
func TestRetiredDamagedSegmentStays(t *testing.T) {
	t.Parallel()
	const first = "/store/seg/0000000000000001.seg"
	disk := vfs.NewMem()
	if err := disk.MkdirAll("/store/quarantine", 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range 1024 {
		write(t, disk, fmt.Sprintf("/store/quarantine/%d", i), nil)
	}
	s, stop := storetest.Start(t, tiny(), store.Deps{FS: disk})
	content := func(i int) []byte { return storetest.Bytes(uint64(i), 40_000) }
	for i := range 60 {
		storetest.Put(t, s, content(i))
	}
	recs := recordsOf(read(t, disk, first))
	for i := recs[3].off; i < recs[3].body; i++ {
		flipByte(t, disk, first, i)
	}
	for i := range 50 {
		if err := s.Delete(t.Context(), b3.Sum(content(i))); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Eventually(t, "two segments are compacted", func() bool { return s.Stats().Usage.Compactions >= 2 })
	if _, err := disk.Stat(first); err != nil {
		t.Errorf("the damaged segment: %v", err)
	}
	for range 2 {
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		s, stop = storetest.Start(t, tiny(), store.Deps{FS: disk})
		for i := range 60 {
			if i >= 50 {
				storetest.Holds(t, s, content(i))
			} else if _, err := storetest.Get(t, s, b3.Sum(content(i))); err == nil {
				t.Errorf("object %d is back", i)
			}
		}
	}
}
