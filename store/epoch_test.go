package store_test

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/internal/testkit"
	"allium/protocols/b3"
	"allium/store"
	"allium/store/storetest"
)

// forgedTombstone is a whole record at offset at of a segment of that epoch, in
// a batch later than any, that removes root.
func forgedTombstone(epoch uint64, at int64, root b3.Root) []byte {
	p := make([]byte, 68)
	copy(p, "ALR3")
	binary.LittleEndian.PutUint32(p[4:], 2<<24)
	binary.LittleEndian.PutUint64(p[8:], epoch)
	binary.LittleEndian.PutUint64(p[16:], 1<<40)
	copy(p[32:], root[:])
	binary.LittleEndian.PutUint32(p[64:], crc32.Checksum(p[:64], crc32.MakeTable(crc32.Castagnoli))^uint32(at))
	return p
}

func epochOf(t *testing.T, fs vfs.FS, name string) uint64 {
	t.Helper()
	return binary.LittleEndian.Uint64(read(t, fs, name)[16:])
}

// lastSegment is the segment with the highest number.
func lastSegment(t *testing.T, fs vfs.FS) string {
	t.Helper()
	names, err := fs.List("/store/seg")
	if err != nil {
		t.Fatal(err)
	}
	names = slices.DeleteFunc(names, func(n string) bool { return !strings.HasSuffix(n, ".seg") })
	return path.Join("/store/seg", slices.Max(names))
}

// TestForgedRecords fills files with objects whose bytes are records that remove
// another object, of the epochs that the file has and that somebody might guess.
// The objects go and a file is used again. Wherever the log in it ends when the
// power fails and the index is lost, whole records of the earlier life follow;
// none of them is taken for one of now.
func TestForgedRecords(t *testing.T) {
	if testing.Short() {
		t.Skip("opens a store again and again; TestRebuildCrash has its goroutines")
	}
	t.Parallel()
	disk := vfs.NewCrashableMem()
	cfg := tiny()
	cfg.CompactRate = 1 << 40
	s, _ := storetest.Start(t, cfg, store.Deps{FS: disk})
	victim := storetest.Bytes(1, 3000)
	storetest.Put(t, s, victim)
	epoch := epochOf(t, disk, lastSegment(t, disk))
	guesses := []uint64{epoch, epoch + 1, epoch - 1, 0, 1, 2, 3, ^uint64(0)}
	var baits []b3.Root
	for i := range 40 {
		// The tombstones of one guess fill a body, so that some begins at each
		// 68th byte; the guesses take turns. Each is made for the place where it
		// will be, which nobody can know but this test.
		var body []byte
		at := int64(64 + 68)
		if name := lastSegment(t, disk); i > 0 {
			log := read(t, disk, name)
			at = int64(len(bytes.TrimRight(log, "\x00"))) + 68
		}
		for range 900 {
			body = append(body, forgedTombstone(guesses[i%len(guesses)], at+int64(len(body)), b3.Sum(victim))...)
		}
		body = append(body, byte(i+1))
		baits = append(baits, b3.Sum(body))
		storetest.Put(t, s, body)
		if i%8 == 7 { // the file that is filled now has another epoch
			guesses[0] = epochOf(t, disk, lastSegment(t, disk))
		}
	}
	for _, root := range baits {
		if err := s.Delete(t.Context(), root); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Eventually(t, "files are kept to be used again", func() bool { return s.Stats().Usage.Spares > 0 })
	begun := lastSegment(t, disk)
	for i := 0; lastSegment(t, disk) == begun; i++ {
		storetest.Put(t, s, storetest.Bytes(uint64(100+i), 60_000))
	}
	name := lastSegment(t, disk)
	if n := bytes.Count(read(t, disk, name), []byte("ALR3")); n < 500 {
		t.Fatalf("the file was not used before: it holds %d records", n)
	}
	want := s.Stats().Objects
	var lastBody []byte
	for i := range 68 { // so that the log ends at each place in a record
		lastBody = storetest.Bytes(uint64(1000+i), 1000+i)
		storetest.Put(t, s, lastBody)
		want++
		clone := disk.CrashClone(vfs.CrashCloneCfg{})
		again, stop := storetest.Start(t, cfg, store.Deps{FS: clone})
		storetest.Holds(t, again, victim)
		storetest.Holds(t, again, lastBody)
		if got := again.Stats().Objects; got != want {
			t.Fatalf("put %d: %d objects, want %d", i, got, want)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	}
	// With the epoch of now the forged record counts: the test tells the two apart.
	clone := disk.CrashClone(vfs.CrashCloneCfg{})
	at := bytes.Index(read(t, clone, name), lastBody) + len(lastBody)
	f, err := clone.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(forgedTombstone(epochOf(t, clone, name), int64(at), b3.Sum(victim)), int64(at)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	again, _ := storetest.Start(t, cfg, store.Deps{FS: clone})
	if got := again.Stats().Objects; got != want-1 {
		t.Errorf("a record of the right epoch is passed over: %d objects, want %d", got, want-1)
	}
}
