package store_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"allium/protocols/b3"
	"allium/store"
	"allium/store/storetest"
)

// Set for the children of BenchmarkMillion: the store, and how many objects to
// put into it.
const (
	millionDir  = "ALLIUM_MILLION_DIR"
	millionPuts = "ALLIUM_MILLION_PUTS"
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

// BenchmarkMillion fills a store with a million objects of 4 KiB and opens it
// again, each time in a process of its own: after an orderly close, and after a
// process that was killed having put 10,000 more. It takes 4 GiB of disk.
//
//	go test -run '^$' -bench Million -benchtime 1x -timeout 20m ./store
func BenchmarkMillion(b *testing.B) {
	if testing.Short() {
		b.Skip("4 GiB")
	}
	const n, more = 1_000_000, 10_000
	for b.Loop() {
		dir := b.TempDir()
		filled := millionChild(b, dir, n, false)
		closed := millionChild(b, dir, more, true)
		killed := millionChild(b, dir, 0, false)
		if closed.Count != n+more || killed.Count != n+more {
			b.Fatalf("%d objects, and %d after the kill", closed.Count, killed.Count)
		}
		b.ReportMetric(n/filled.Put, "puts/s")
		b.ReportMetric(float64(filled.Peak)/1024, "put-peak-MiB")
		b.ReportMetric(closed.Open*1000, "open-ms")
		b.ReportMetric(float64(closed.RSS)/1024, "open-RSS-MiB")
		b.ReportMetric(killed.Open*1000, "open-killed-ms")
		b.ReportMetric(float64(killed.RSS)/1024, "open-killed-RSS-MiB")
		b.ReportMetric(float64(killed.Index)/float64(killed.Count), "index-B/object")
	}
}

func millionChild(b *testing.B, dir string, puts int, kill bool) (m million) {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), os.Args[0], "-test.run=^TestMillionChild$")
	cmd.Env = append(os.Environ(), millionDir+"="+dir, millionPuts+"="+strconv.Itoa(puts))
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
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	s, stop := storetest.Start(t, embedded(dir), store.Deps{})
	m := million{Open: time.Since(begun).Seconds()}
	here := s.Stats().Objects
	p := storetest.Bytes(1, 4<<10)
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
