package store_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"golang.org/x/sys/unix"

	"allium/protocols/b3"
	"allium/store"
	"allium/store/storetest"
)

// BenchmarkPutDurable is the measure of notes and SPEC: 4 KiB objects, each
// durable before the next, 16 writers. In one run: a file per object, Pebble
// alone, and the store, with its ratio to both. device/B is what all processes
// wrote to the disk for each byte put, so it needs an idle machine; the count of
// one process, /proc/self/io, takes a whole folio of the page cache, up to 1 MiB,
// for each page that is written of it.
//
//	go test -run '^$' -bench PutDurable -benchtime 100000x ./store
func BenchmarkPutDurable(b *testing.B) {
	var file, db float64
	b.Run("file", func(b *testing.B) {
		dir := b.TempDir()
		file = putDurable(b, dir, func(w int, p []byte) error { return putFile(dir, w, p) })
	})
	b.Run("pebble", func(b *testing.B) {
		dir := b.TempDir()
		d, err := pebble.Open(dir, &pebble.Options{Logger: quiet{}})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = d.Close() })
		db = putDurable(b, dir, func(_ int, p []byte) error {
			root := b3.Sum(p)
			return d.Set(root[:], p, pebble.Sync)
		})
	})
	b.Run("store", func(b *testing.B) {
		dir := b.TempDir()
		s, _ := storetest.Start(b, embedded(dir), store.Deps{})
		got := putDurable(b, dir, func(_ int, p []byte) error {
			_, err := s.PutBytes(b.Context(), p, store.PutOptions{})
			return err
		})
		if file > 0 && db > 0 {
			b.ReportMetric(got/file, "x-file")
			b.ReportMetric(got/db, "x-pebble")
		}
	})
}

// quiet is a logger of Pebble that says nothing.
type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf(format, args...))
}

// putDurable puts b.N objects and returns how many a second.
func putDurable(b *testing.B, dir string, put func(w int, p []byte) error) float64 {
	const writers, size = 16, 4 << 10
	before := written(b, dir)
	b.SetBytes(size)
	b.ResetTimer()
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			p := storetest.Bytes(uint64(w), size)
			for i := w; i < b.N; i += writers {
				binary.LittleEndian.PutUint64(p, uint64(i))
				if err := put(w, p); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	rate := float64(b.N) / b.Elapsed().Seconds()
	b.ReportMetric(rate, "puts/s")
	if before >= 0 {
		b.ReportMetric(float64(written(b, dir)-before)/float64(b.N*size), "device/B")
	}
	return rate
}

// putFile is a store of a file per object: what a rename makes visible is
// there whole after a power loss.
func putFile(dir string, w int, p []byte) error {
	root := b3.Sum(p)
	temp := filepath.Join(dir, fmt.Sprintf("tmp-%d", w))
	f, err := os.Create(temp)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Write(p); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Rename(temp, filepath.Join(dir, fmt.Sprintf("%x", root[:]))); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// written is how many bytes the disk of dir was given to write since the system
// started, -1 where it does not say.
func written(b *testing.B, dir string) int64 {
	b.Helper()
	info, err := os.Stat(dir)
	if err != nil {
		b.Fatal(err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return -1
	}
	dev := st.Dev
	p, err := os.ReadFile(fmt.Sprintf("/sys/dev/block/%d:%d/stat", unix.Major(dev), unix.Minor(dev)))
	fields := strings.Fields(string(p))
	if err != nil || len(fields) < 7 {
		return -1
	}
	sectors, err := strconv.ParseInt(fields[6], 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return 512 * sectors
}

// procField reads a number of a file in /proc, -1 where there is none.
func procField(b testing.TB, file, field string) int64 {
	b.Helper()
	p, err := os.ReadFile(file)
	if err != nil {
		return -1
	}
	for line := range strings.Lines(string(p)) {
		if rest, ok := strings.CutPrefix(line, field); ok {
			var n int64
			if _, err := fmt.Sscan(rest, &n); err != nil {
				b.Fatalf("%s: %s: %v", file, line, err)
			}
			return n
		}
	}
	return -1
}
