package store

import (
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"allium/protocols/b3"
	"allium/store/meta"
)

// BenchmarkRandomGroups reads verified groups at random from an object of
// 10 GiB, two readers at a time, with everything in the page cache. The object
// is one file of 256 MiB over and over, under an outboard of its own, so that it
// takes neither the disk nor the RAM of 10 GiB; each read is a pread like any
// other.
func BenchmarkRandomGroups(b *testing.B) {
	const size, readers = 10 << 30, 2
	data, outboard := repeatedFile{tempFile(b, "data")}, tempFile(b, "outboard")
	p := make([]byte, repeatedSize)
	_, _ = rand.NewChaCha8([32]byte{}).Read(p)
	if _, err := data.file.Write(p); err != nil {
		b.Fatal(err)
	}
	h := b3.NewHasher(outboard, 2)
	for range size / repeatedSize {
		_, _ = h.Write(p)
	}
	root, _, err := h.Sum()
	if err != nil {
		b.Fatal(err)
	}
	r := b3.NewReader(root, size, meta.PairSource{Pair: meta.Pair{Data: data, Outboard: outboard}, Size: size})
	b.SetBytes(b3.GroupSize)
	b.ReportAllocs()
	b.ResetTimer()
	cpu := cpuTime()
	var wg sync.WaitGroup
	for i := range readers {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(i), 0))
			buf := make([]byte, b3.GroupSize)
			for n := i; n < b.N; n += readers {
				if _, err := r.ReadGroup(rnd.Int64N(b3.Groups(size)), buf); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "reads/s")
	b.ReportMetric(float64((cpuTime()-cpu).Microseconds())/float64(b.N), "cpu-µs/read")
}

// cpuTime is what the process has used, which other work on the machine does
// not change as it changes the clock on the wall.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func tempFile(b *testing.B, name string) *os.File {
	b.Helper()
	f, err := os.Create(filepath.Join(b.TempDir(), name))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = f.Close() })
	return f
}

const repeatedSize = 256 << 20

// repeatedFile is a file of repeatedSize bytes over and over. A group does not
// cross from one to the next.
type repeatedFile struct{ file *os.File }

func (f repeatedFile) ReadAt(p []byte, off int64) (int, error) {
	return f.file.ReadAt(p, off%repeatedSize)
}

func (f repeatedFile) WriteAt([]byte, int64) (int, error) { return 0, io.ErrShortWrite }
func (f repeatedFile) Close() error                       { return f.file.Close() }
