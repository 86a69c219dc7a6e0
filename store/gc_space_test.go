package store_test

import (
	"fmt"
	"path"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
	"allium/store/gc"
	"allium/store/meta"
	"allium/store/storetest"
)

// smallDisk has room for total bytes of files, of a store of small objects: it
// does not look into obj/, whose 256 directories cost more than all the rest.
type smallDisk struct {
	vfs.FS
	total int64
}

func (d smallDisk) GetDiskUsage(string) (vfs.DiskUsage, error) {
	used := int64(0)
	for _, dir := range []string{"seg", "index", "tmp", "part", "ballast"} {
		used += d.used(path.Join("/store", dir))
	}
	u := vfs.DiskUsage{AvailBytes: uint64(max(0, d.total-used)), TotalBytes: uint64(d.total), UsedBytes: uint64(used)}
	return u, nil
}

// used passes by what is removed meanwhile.
func (d smallDisk) used(dir string) (n int64) {
	names, err := d.List(dir)
	if err != nil {
		return 0
	}
	for _, name := range names {
		if info, err := d.Stat(path.Join(dir, name)); err == nil {
			n += info.Size()
		}
	}
	return n
}

// TestEvictionByFreeDisk: a store without max_bytes keeps its disk from filling,
// and does not empty itself while the space of what it removed comes back.
func TestEvictionByFreeDisk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := tiny()
		cfg.ReserveBytes = 2 << 20
		disk := smallDisk{vfs.NewMem(), 24 << 20}
		s, stop := storetest.Start(t, cfg, store.Deps{FS: disk})
		pinned := storetest.Bytes(0, 40_000)
		if err := s.Pin(t.Context(), storetest.Put(t, s, pinned), store.PinOptions{}); err != nil {
			t.Fatal(err)
		}
		most, least, n := int64(0), int64(1<<62), 650
		for i := 1; i <= n; i++ {
			storetest.Put(t, s, storetest.Bytes(uint64(i), 40_000))
			time.Sleep(time.Minute)
			held := s.Stats().Bytes
			if most = max(most, held); held < most {
				least = min(least, held)
			}
			if sp := s.Collector().Space(); sp.Free < sp.Reserve {
				t.Fatalf("after %d puts %d bytes are free, reserved are %d", i, sp.Free, sp.Reserve)
			}
		}
		if least > most {
			t.Fatal("nothing was evicted")
		}
		t.Logf("between %d and %d bytes of objects on a disk of %d", least, most, disk.total)
		if least < most/2 {
			t.Errorf("evictions left %d bytes of %d", least, most)
		}
		storetest.Holds(t, s, pinned)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestFullAgrees: the store is full when it refuses puts, and only then.
func TestFullAgrees(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := tiny()
		disk := vfs.NewMem()
		s, stop := storetest.Start(t, cfg, store.Deps{FS: disk})
		reserve := uint64(cfg.ReserveBytes)
		for i, test := range []struct {
			free uint64
			full bool
		}{{8 * reserve, false}, {reserve + reserve/2, false}, {reserve / 2, true}, {reserve + reserve/2, false},
			{reserve - 1, true}, {reserve + 100_000, true}, {8 * reserve, false}} {
			ballast := uint64(s.Stats().Usage.BallastBytes) // a part of what is free
			disk.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: test.free - ballast, TotalBytes: 1 << 40})
			time.Sleep(time.Minute)
			if sp := s.Collector().Space(); sp.Full != test.full || sp.Full != (sp.FullReason != "") {
				t.Errorf("step %d with %d free: %+v", i, test.free, sp)
			}
			_, err := s.PutBytes(t.Context(), storetest.Bytes(uint64(100+i), 2*b3.GroupSize), store.PutOptions{})
			if refused := status.Of(err) == status.NoSpace; refused != test.full {
				t.Errorf("step %d with %d free: full is %t, and a put says %v", i, test.free, test.full, err)
			}
		}
		storetest.Put(t, s, smallPut)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestRoomWait: a put waits 5 s for an eviction that does not come, and goes on
// when one does.
func TestRoomWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := store.DefaultConfig()
		cfg.Backend, cfg.MaxBytes, cfg.LowWater = store.BackendMemory, 10_000, 0.5
		s, stop := storetest.Start(t, cfg, store.Deps{})
		for i := range 7 {
			storetest.Put(t, s, storetest.Bytes(uint64(i), 1000))
		}
		time.Sleep(time.Hour)
		block, over := make(chan struct{}), make(chan error, 1)
		go func() { // a collection that stays long
			_, err := s.Collector().Run(t.Context(), gc.Options{All: true, Dry: true,
				Removal: func(gc.Object) bool { <-block; return false }})
			over <- err
		}()
		synctest.Wait()
		begun := time.Now()
		_, err := s.PutBytes(t.Context(), storetest.Bytes(99, 3500), store.PutOptions{})
		storetest.Want(t, err, status.NoSpace)
		if took := time.Since(begun); took != 5*time.Second {
			t.Errorf("the put waited %s", took)
		}
		put := make(chan error, 1)
		go func() {
			_, err := s.PutBytes(t.Context(), storetest.Bytes(99, 3500), store.PutOptions{})
			put <- err
		}()
		synctest.Wait()
		close(block)
		if err := <-put; err != nil {
			t.Error("a put that waits for an eviction:", err)
		}
		if err := <-over; err != nil {
			t.Error(err)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestDeferredCounts: what is put but not visible yet counts against max_bytes.
func TestDeferredCounts(t *testing.T) {
	t.Parallel()
	for _, size := range []int{2000, b3.GroupSize + 1} {
		cfg := tiny()
		cfg.MaxBytes = limits.Bytes(10 * size)
		s, _ := storetest.Start(t, cfg, store.Deps{FS: vfs.NewMem()})
		accepted := int64(0)
		for i := range 20 {
			p := storetest.Bytes(uint64(i), size)
			_, err := s.PutBytes(t.Context(), p, store.PutOptions{Deferred: true})
			if err == nil {
				accepted++
			} else {
				storetest.Want(t, err, status.NoSpace)
			}
			if sp := s.Collector().Space(); sp.Used.Bytes > sp.Max.Bytes {
				t.Fatalf("%d bytes of %d are used", sp.Used.Bytes, sp.Max.Bytes)
			}
		}
		if err := s.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		each := int64(size) + b3.OutboardSize(int64(size))
		if sp, st := s.Collector().Space(), s.Stats(); sp.Used.Bytes != st.Objects*each ||
			sp.Used.Objects != st.Objects ||
			st.Objects == 0 {
			t.Errorf("after the flush %+v, with %d objects of %d; %d were accepted", sp, st.Objects, size, accepted)
		}
	}
}

// TestGCPartial: a download that was left half done is cache, one that is under
// way is not.
func TestGCPartial(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, cfg store.Config) {
		s, _ := storetest.Start(t, cfg, store.Deps{})
		p := storetest.Bytes(1, 8*b3.GroupSize)
		in, err := s.Ingest(t.Context(), b3.Sum(p), int64(len(p)))
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range storetest.Items(t, p, int64(len(p)),
			b3.Range{Start: 7 * b3.GroupSize, End: 8 * b3.GroupSize}) {
			if err := in.Write(item); err != nil {
				t.Fatal(err)
			}
		}
		if n := gcAll(t, s).Classes[gc.Removed].Objects; n != 0 {
			t.Errorf("%d objects were removed during the download", n)
		}
		in.Suspend()
		var told []gc.Object
		if _, err := s.Collector().Run(t.Context(), gc.Options{All: true,
			Removal: func(o gc.Object) bool { told = append(told, o); return true }}); err != nil {
			t.Fatal(err)
		}
		if len(told) != 1 || !told[0].Partial || told[0].Root != b3.Sum(p) || told[0].Size != b3.GroupSize {
			t.Errorf("removed were %+v", told)
		}
		_, err = s.Partials().Get(t.Context(), b3.Sum(p))
		storetest.Want(t, err, status.NotFound)
		if st := s.Stats(); st.PartialObjects != 0 || st.PartialBytes != 0 ||
			s.Collector().Space().Used != (meta.Count{}) {
			t.Errorf("counted are %+v, used %+v", st, s.Collector().Space().Used)
		}
	})
}

// TestGCLatePin: what is pinned while a collection runs stays.
func TestGCLatePin(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, cfg store.Config) {
		s, _ := storetest.Start(t, cfg, store.Deps{})
		for i := range 700 {
			if _, err := s.PutBytes(t.Context(), fmt.Appendf(nil, "object %d", i),
				store.PutOptions{Deferred: true}); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		roots := storetest.Roots(t, s)
		late := roots[len(roots)-1]
		pinned := make(chan error, 1)
		begun := false
		r, err := s.Collector().Run(t.Context(), gc.Options{All: true, Fast: true, Removal: func(gc.Object) bool {
			if !begun { // the pin waits for this batch
				begun = true
				go func() { pinned <- s.Pin(t.Context(), late, store.PinOptions{Recursive: true}) }()
			}
			return true
		}})
		if err != nil {
			t.Fatal(err)
		}
		err = <-pinned
		has, e := s.Has(t.Context(), []b3.Root{late})
		if e != nil {
			t.Fatal(e)
		}
		if (err == nil) != (has[0] == b3.Complete) {
			t.Errorf("the pin says %v, the object's presence is %d: %v", err, has[0], r.Classes)
		}
		if err != nil {
			storetest.Want(t, err, status.NotFound)
		}
	})
}
