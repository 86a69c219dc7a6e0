package b3

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkAhead streams an object of 128 MiB from files, in turns with the next
// group read ahead and without, and reports MB/s and CPU of both: from the page
// cache and from the disk, to nowhere, where nothing but the hash takes time,
// and to a TCP connection.
func BenchmarkAhead(b *testing.B) {
	const size = 128 << 20
	data, out := create(b, "data"), create(b, "outboard")
	h := NewHasher(out, 2)
	if _, err := h.ReadFrom(io.TeeReader(io.LimitReader(rand.NewChaCha8([32]byte{}), size), data)); err != nil {
		b.Fatal(err)
	}
	root, _, err := h.Sum()
	if err != nil {
		b.Fatal(err)
	}
	if err := data.Sync(); err != nil { // what is dirty cannot be dropped
		b.Fatal(err)
	}
	queue := NewHashQueue(runtime.GOMAXPROCS(0))
	r := queue.Reader(root, size, FileSource(data, out, size))
	for _, cold := range []bool{false, true} {
		for _, to := range []string{"nowhere", "tcp"} {
			b.Run(fmt.Sprintf("cold=%t/to=%s", cold, to), func(b *testing.B) {
				var w io.Writer = struct{ io.Writer }{io.Discard}
				if to == "tcp" {
					w = swallower(b)
				}
				var took, cpu [2]time.Duration
				for i := 0; b.Loop(); i++ {
					for turn := range 2 {
						ahead := (i + turn) % 2
						if cold {
							dropCache(b, data)
						}
						begun, used := time.Now(), cpuTime(b)
						if ahead == 0 {
							queue.readers.Add(1 << 20) // as if there were as many as there may be
						}
						s := r.Section(0, -1)
						if _, err := s.WriteTo(w); err != nil {
							b.Fatal(err)
						}
						s.Close()
						if ahead == 0 {
							queue.readers.Add(-1 << 20)
						}
						took[ahead] += time.Since(begun)
						cpu[ahead] += cpuTime(b) - used
					}
				}
				for ahead, name := range []string{"turn", "ahead"} {
					b.ReportMetric(float64(b.N)*size/1e6/took[ahead].Seconds(), name+"-MB/s")
					b.ReportMetric(float64(cpu[ahead].Milliseconds())/float64(b.N), name+"-cpu-ms")
				}
				b.ReportMetric(took[0].Seconds()/took[1].Seconds(), "faster-×")
			})
		}
	}
}

func dropCache(b *testing.B, f *os.File) {
	b.Helper()
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		b.Fatal(err)
	}
}

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// swallower is a connection whose other end reads.
func swallower(b *testing.B) net.Conn {
	b.Helper()
	l, err := (&net.ListenConfig{}).Listen(b.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	var wg sync.WaitGroup
	wg.Go(func() {
		c, err := l.Accept()
		if err != nil {
			b.Error(err)
			return
		}
		defer c.Close()
		for p := make([]byte, 256<<10); err == nil; {
			_, err = c.Read(p)
		}
	})
	c, err := (&net.Dialer{}).DialContext(b.Context(), "tcp", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = c.Close()
		wg.Wait()
	})
	return c
}
