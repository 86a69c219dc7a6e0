package records

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	ds "github.com/ipfs/go-datastore"
	"github.com/ipfs/go-datastore/query"
	"go.uber.org/goleak"

	"allium/internal/testkit"
	"allium/protocols/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// refusingFS takes no writes while refuse is set.
type refusingFS struct {
	vfs.FS
	refuse *atomic.Bool
}

func (f refusingFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if f.refuse.Load() {
		return nil, syscall.EROFS
	}
	file, err := f.FS.Create(name, c)
	return refusingFile{file, f.refuse}, err
}

type refusingFile struct {
	vfs.File
	refuse *atomic.Bool
}

func (f refusingFile) Write(p []byte) (int, error) {
	if f.refuse.Load() {
		return 0, syscall.ENOSPC
	}
	return f.File.Write(p)
}

func (f refusingFile) Sync() error {
	if f.refuse.Load() {
		return syscall.ENOSPC
	}
	return f.File.Sync()
}

// running is a store in dir that runs until stop.
func running(t testing.TB, dir string, fs vfs.FS) (s *Store, stop func()) {
	t.Helper()
	s = New(Config{Dir: dir, Peers: "/records/"}, Deps{FS: fs})
	s.retry.first = time.Millisecond
	return s, testkit.Start(t, s.Run)
}

func key(i int) ds.Key { return ds.NewKey(fmt.Sprintf("/sweep/%06d", i)) }

func value(i int) []byte { return bytes.Repeat([]byte{byte(i)}, 1000) }

// write puts n values, durably.
func write(t testing.TB, s *Store, from, n int) {
	t.Helper()
	for i := from; i < from+n; i++ {
		if err := s.Put(t.Context(), key(i), value(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Sync(t.Context(), ds.NewKey("/")); err != nil {
		t.Fatal(err)
	}
}

// count is how many of n values are there; none is wrong.
func count(t testing.TB, s *Store, n int) (found int) {
	t.Helper()
	for i := range n {
		v, err := s.Get(t.Context(), key(i))
		if err == nil && !bytes.Equal(v, value(i)) {
			t.Fatalf("value %d is another one", i)
		}
		if err == nil {
			found++
		} else if err != ds.ErrNotFound { //nolint:errorlint // it is returned as it is
			t.Fatal(err)
		}
	}
	return found
}

// TestQuery: a query returns the entries below a prefix, in order, page after page.
func TestQuery(t *testing.T) {
	t.Parallel()
	s, stop := running(t, "records", vfs.NewMem())
	defer stop()
	write(t, s, 0, 3*pageEntries)
	for _, k := range []string{"/swee", "/sweep", "/sweeper/1", "/sweep0", "/a/b"} {
		if err := s.Put(t.Context(), ds.NewKey(k), []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		q          query.Query
		n          int
		first, has string
	}{
		{query.Query{Prefix: "/sweep"}, 3 * pageEntries, "/sweep/000000", string(value(0))},
		{query.Query{Prefix: "sweep/", KeysOnly: true}, 3 * pageEntries, "/sweep/000000", ""},
		{query.Query{}, 3*pageEntries + 5, "/a/b", "x"},
		{query.Query{Prefix: "/none"}, 0, "", ""},
		{query.Query{Prefix: "/sweep", Offset: 300, Limit: 7}, 7, "/sweep/000300", string(value(300))},
		{query.Query{Prefix: "/sweep", Orders: []query.Order{query.OrderByKeyDescending{}}},
			3 * pageEntries, "/sweep/000767",
			string(value(767))},
		{query.Query{Prefix: "/sweep",
			Filters: []query.Filter{query.FilterKeyCompare{Op: query.Equal, Key: "/sweep/000009"}}}, 1, "/sweep/000009",
			string(value(9))},
	} {
		res, err := s.Query(t.Context(), c.q)
		if err != nil {
			t.Fatal(err)
		}
		got, err := res.Rest()
		if err != nil || len(got) != c.n {
			t.Fatalf("%v: %d entries, want %d; %v", c.q, len(got), c.n, err)
		}
		if c.n > 0 && (got[0].Key != c.first || string(got[0].Value) != c.has) {
			t.Errorf("%v: the first is %s", c.q, got[0].Key)
		}
	}
	if n, err := s.GetSize(t.Context(), key(1)); n != 1000 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	//nolint:errorlint // it is returned as it is
	if _, err := s.GetSize(t.Context(), ds.NewKey("/none")); err != ds.ErrNotFound {
		t.Error(err)
	}
}

// TestDiskRefuses: while the disk takes no writes the store goes on in RAM, and
// afterwards with what was on disk before. Nobody sees an error.
func TestDiskRefuses(t *testing.T) {
	t.Parallel()
	disk := refusingFS{vfs.NewMem(), &atomic.Bool{}}
	s, stop := running(t, "records", disk)
	defer stop()
	write(t, s, 0, 50)
	disk.refuse.Store(true)
	if err := s.Put(t.Context(), key(50), value(50)); err != nil {
		t.Fatal(err)
	}
	if s.Sync(t.Context(), key(50)) == nil {
		t.Fatal("what the disk refused is taken for durable")
	}
	testkit.Eventually(t, "a failed write", func() bool { return s.Err() != nil })
	write(t, s, 50, 50)
	if s.Err() == nil || s.Renewed() == 0 {
		t.Fatal("nothing is told of a disk that takes no writes")
	}
	if got := count(t, s, 100); got != 50 {
		t.Errorf("%d values in RAM, want 50", got)
	}
	disk.refuse.Store(false)
	testkit.Eventually(t, "a write that works again", func() bool { return s.Err() == nil })
	if got := count(t, s, 50); got != 50 || s.Renewed() != 2 {
		t.Errorf("%d values on disk, want 50; renewed %d times", got, s.Renewed())
	}
	write(t, s, 100, 50)
	stop()
	s, stop = running(t, "records", disk)
	defer stop()
	if got := count(t, s, 150); got != 100 {
		t.Errorf("%d values after a restart, want 100", got)
	}
}

// TestStartsWithoutDisk: a store starts on a disk that takes no writes.
func TestStartsWithoutDisk(t *testing.T) {
	t.Parallel()
	disk := refusingFS{vfs.NewMem(), &atomic.Bool{}}
	disk.refuse.Store(true)
	s, stop := running(t, "records", disk)
	defer stop()
	if s.Err() == nil {
		t.Error("it says nothing")
	}
	write(t, s, 0, 10)
	disk.refuse.Store(false)
	testkit.Eventually(t, "a write that works again", func() bool { return s.Err() == nil })
}

// TestNotRunning: before and after Run nothing is to be had.
func TestNotRunning(t *testing.T) {
	t.Parallel()
	s, stop := running(t, "records", vfs.NewMem())
	stop()
	if _, err := s.Get(t.Context(), key(1)); status.Of(err) != status.NotReady {
		t.Error(err)
	}
	if err := s.Put(t.Context(), key(1), nil); status.Of(err) != status.NotReady {
		t.Error(err)
	}
	if _, err := New(Config{}, Deps{}).Has(t.Context(), key(1)); status.Of(err) != status.NotReady {
		t.Error(err)
	}
}

// TestBound: a full database takes what removes something, and records of peers
// leave room for the rest.
func TestBound(t *testing.T) {
	t.Parallel()
	s := New(Config{Dir: "records", Peers: "/records/"}, Deps{FS: vfs.NewMem()})
	s.place.most.disk = 4 << 20
	stop := testkit.Start(t, s.Run)
	defer stop()
	fill := func(prefix string) (n int, err error) {
		for ; n < 20_000 && err == nil; n++ {
			err = s.Put(t.Context(), ds.NewKey(fmt.Sprintf("%s/%d", prefix, n)), make([]byte, 1000))
		}
		return n, err
	}
	n, err := fill("/records")
	if status.Of(err) != status.NoSpace || n < 500 {
		t.Fatalf("%d records of peers: %v", n, err)
	}
	if n, err = fill("/sweep"); status.Of(err) != status.NoSpace || n < 100 {
		t.Fatalf("%d of the rest: %v", n, err)
	}
	b, err := s.Batch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Put(t.Context(), ds.NewKey("/records/new"), nil); err != nil {
		t.Fatal(err)
	}
	if err := b.Delete(t.Context(), ds.NewKey("/records/0")); err != nil {
		t.Fatal(err)
	}
	if err := b.Commit(t.Context()); status.Of(err) != status.NoSpace {
		t.Error(err)
	}
	for _, k := range []string{"/records/new", "/records/0"} {
		if has, err := s.Has(t.Context(), ds.NewKey(k)); has || err != nil {
			t.Errorf("%s: %t, %v", k, has, err)
		}
	}
}

// TestDamage changes the files of a database in every way: the store starts,
// takes writes, and says what it did with the old ones where it begins anew.
func TestDamage(t *testing.T) {
	t.Parallel()
	good := filepath.Join(t.TempDir(), "good")
	s, stop := running(t, good, nil)
	write(t, s, 0, 1500) // more than is written to a table
	stop()
	files, err := os.ReadDir(good)
	if err != nil {
		t.Fatal(err)
	}
	steps := 2
	if os.Getenv("ALLIUM_TORTURE") != "" {
		steps = 300
	}
	cases := 0
	defer func() { t.Log(cases, "cases of", len(files), "files") }()
	if len(files) < 5 {
		t.Fatalf("%v; %v", files, s.Err())
	}
	for _, f := range files {
		whole, err := os.ReadFile(filepath.Join(good, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		other, err := os.ReadFile(filepath.Join(good, files[0].Name()))
		if err != nil {
			t.Fatal(err)
		}
		changed := map[string][]byte{"emptied": {}, "deleted": nil, "cut": whole[:len(whole)/2], "swapped": other}
		if testing.Short() { // the goroutines are the same in each case
			delete(changed, "emptied")
			delete(changed, "swapped")
			whole = nil
		}
		for at := 0; at < len(whole); at += 1 + len(whole)/steps {
			p := bytes.Clone(whole)
			p[at] ^= 0x40
			changed[fmt.Sprintf("byte %d", at)] = p
		}
		for what, p := range changed {
			cases++
			survives(t, good, f.Name(), what, p)
		}
	}
}

// survives runs a store on a copy of good in which one file is p.
func survives(t *testing.T, good, name, what string, p []byte) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "records")
	if err := os.CopyFS(dir, os.DirFS(good)); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir+".damaged/older", 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, name)
	err := os.Remove(file)
	if p != nil {
		err = os.WriteFile(file, p, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	s, stop := running(t, dir, nil)
	defer stop()
	lost := count(t, s, 1500) < 1500
	res, err := s.Query(t.Context(), query.Query{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := res.Rest(); err != nil {
		t.Errorf("%s, %s: %v", name, what, err)
	}
	testkit.Eventually(t, "a write that works again", func() bool { return s.Err() == nil })
	write(t, s, 10_000, 10)
	_, err = os.Stat(dir + ".damaged/older")
	if aside := os.IsNotExist(err); lost && !aside {
		t.Errorf("%s, %s: values were lost, and nothing was set aside", name, what)
	}
	stop()
	s, stop = running(t, dir, nil)
	defer stop()
	if v, err := s.Get(context.WithoutCancel(t.Context()), key(10_009)); err != nil || !bytes.Equal(v, value(10_009)) {
		t.Errorf("%s, %s: what was written afterwards is lost: %v", name, what, err)
	}
}
