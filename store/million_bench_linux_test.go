package store_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"allium/protocols/b3"
	"allium/store"
	"allium/store/storetest"
)

// Set for the children of BenchmarkMillion: the store, how many objects to put into it, and the
// bytes of each.
const (
	millionDir  = "ALLIUM_MILLION_DIR"
	millionPuts = "ALLIUM_MILLION_PUTS"
	millionSize = "ALLIUM_MILLION_SIZE"
	millionKill = "ALLIUM_MILLION_KILL" // end without closing
)

// million is what a child found.
type million struct {
	Open  float64 // s
	Put   float64 // s, the flush included
	RSS   int64   // KiB, after it opened and read
	Peak  int64   // KiB
	Index int64   // bytes
	Count int64   // objects
}

// BenchmarkMillion fills a store with a million objects of 4 KiB, or ten million of 100 bytes, and
// opens it again, each time in a process of its own: after an orderly close, and after a process that
// was killed having put 10,000 more. It takes 4 GiB of disk.
//
//	go test -run '^$' -bench Million -benchtime 1x -timeout 30m ./store
func BenchmarkMillion(b *testing.B) {
	if testing.Short() {
		b.Skip("4 GiB")
	}
	b.Run("4KiB", func(b *testing.B) { benchmarkMillion(b, 1_000_000, 4<<10) })
	b.Run("10x100B", func(b *testing.B) { benchmarkMillion(b, 10_000_000, 100) })
}

// benchmarkMillion measures a store of n objects of size bytes.
func benchmarkMillion(b *testing.B, n, size int) {
	const few, more = 100_000, 10_000
	for b.Loop() {
		first := millionChild(b, b.TempDir(), few, size, false)
		dir := b.TempDir()
		filled := millionChild(b, dir, n, size, false)
		closed := millionChild(b, dir, more, size, true)
		killed := millionChild(b, dir, 0, size, false)
		if all := int64(n + more); closed.Count != all || killed.Count != all {
			b.Fatalf("%d objects, and %d after the kill", closed.Count, killed.Count)
		}
		rate := float64(n) / filled.Put
		b.ReportMetric(rate, "puts/s")
		b.ReportMetric(rate/(few/first.Put), "of-rate-of-100k")
		b.ReportMetric(float64(filled.Peak)/1024, "put-peak-MiB")
		b.ReportMetric(closed.Open*1000, "open-ms")
		b.ReportMetric(float64(closed.RSS)/1024, "open-RSS-MiB")
		b.ReportMetric(killed.Open*1000, "open-killed-ms")
		b.ReportMetric(float64(killed.RSS)/1024, "open-killed-RSS-MiB")
		b.ReportMetric(float64(killed.Index)/float64(killed.Count), "index-B/object")
		b.ReportMetric(float64(allocated(b, dir))/float64(killed.Count)-float64(size), "disk-B/object")
	}
}

// allocated returns how many bytes of the disk the files in dir take.
func allocated(b *testing.B, dir string) (n int64) {
	b.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			n += info.Sys().(*syscall.Stat_t).Blocks * 512
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return n
}

func millionChild(b *testing.B, dir string, puts, size int, kill bool) (m million) {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), os.Args[0], "-test.run=^TestMillionChild$", "-test.timeout=20m")
	cmd.Env = append(os.Environ(), millionDir+"="+dir, millionPuts+"="+strconv.Itoa(puts),
		millionSize+"="+strconv.Itoa(size))
	if kill {
		cmd.Env = append(cmd.Env, millionKill+"=1")
	}
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	if err := json.NewDecoder(bytes.NewReader(out[max(0, bytes.IndexByte(out, '{')):])).Decode(&m); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	b.Logf("%d puts: %+v", puts, m)
	return m
}

// TestMillionChild is a child of BenchmarkMillion.
func TestMillionChild(t *testing.T) {
	dir := os.Getenv(millionDir)
	if dir == "" {
		t.Skip("for BenchmarkMillion")
	}
	puts, err := strconv.Atoi(os.Getenv(millionPuts))
	size, err2 := strconv.Atoi(os.Getenv(millionSize))
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	s, stop := storetest.Start(t, embedded(dir), store.Deps{})
	m := million{Open: time.Since(begun).Seconds()}
	here := s.Stats().Objects
	p := storetest.Bytes(1, size)
	content := func(i int64) []byte {
		binary.LittleEndian.PutUint64(p, uint64(i))
		return p
	}
	for i := range min(here, 20_000) {
		if _, err := s.Stat(t.Context(), b3.Sum(content(i*7919%here))); err != nil {
			t.Fatal(err)
		}
	}
	m.RSS = procField(t, "/proc/self/status", "VmRSS:")
	begun = time.Now()
	for i := range puts {
		if _, err := s.PutBytes(t.Context(), content(here+int64(i)), store.PutOptions{Deferred: true}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.Put = time.Since(begun).Seconds()
	m.Peak = procField(t, "/proc/self/status", "VmHWM:")
	st := s.Stats()
	m.Count, m.Index = st.Objects, st.Usage.IndexBytes
	kill := os.Getenv(millionKill) != ""
	if !kill {
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(m); err != nil {
		t.Fatal(err)
	}
	if kill {
		os.Exit(0) // nothing is closed
	}
}
