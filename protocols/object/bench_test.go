package object

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/protocol"

	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/oap"
)

// bulkSize is the object of the bulk benchmarks, in bytes.
const bulkSize = 256 << 20

// BenchmarkBulk moves one large object between two processes' worth of hosts
// over loopback TCP and, in turns, the same bytes through the thinnest honest
// program (pread + hash → one stream → hash) and through a bare stream copy.
// The metrics are MB/s of each and the ratios to them.
func BenchmarkBulk(b *testing.B) {
	for _, frame := range []int64{oneGroup, oap.MaxFrame} {
		b.Run(fmt.Sprintf("frame=%dKiB", frame>>10), func(b *testing.B) {
			cfg := DefaultConfig()
			cfg.FrameBytes = limits.Bytes(frame)
			benchBulk(b, cfg)
		})
	}
}

func benchBulk(b *testing.B, cfg Config) {
	l := newLoopback(b, "tcp", cfg)
	file, root := bulkObject(b, l.store)
	const pipeID, rawID = protocol.ID("/test/pipe"), protocol.ID("/test/raw")
	l.to.SetStreamHandler(pipeID, func(st network.Stream) { sendPipe(st, file, true) })
	l.to.SetStreamHandler(rawID, func(st network.Stream) { sendPipe(st, file, false) })
	copied := func(id protocol.ID, hash bool) {
		st, err := l.from.NewStream(b.Context(), l.to.ID(), id)
		if err != nil {
			b.Fatal(err)
		}
		defer st.Close()
		if _, err := st.Write([]byte{0}); err != nil {
			b.Fatal(err)
		}
		if n := receivePipe(b, st, hash); n != bulkSize {
			b.Fatalf("%d bytes", n)
		}
	}
	var object, pipe, raw spent
	sink := &countSink{}
	b.SetBytes(3 * bulkSize)
	for b.Loop() {
		object.add(func() {
			sink.n = 0
			if err := l.client.Get(b.Context(), l.to.ID(), GetRequest{Objs: []b3.Root{root}}, sink); err != nil ||
				sink.n != bulkSize {
				b.Fatal(err, sink.n)
			}
		})
		pipe.add(func() { copied(pipeID, true) })
		raw.add(func() { copied(rawID, false) })
	}
	b.ReportMetric(object.rate(), "object-MB/s")
	b.ReportMetric(pipe.rate(), "pipe-MB/s")
	b.ReportMetric(raw.rate(), "raw-MB/s")
	b.ReportMetric(object.rate()/pipe.rate(), "of-pipe")
	b.ReportMetric(object.rate()/raw.rate(), "of-raw")
	b.ReportMetric(object.cpu.Seconds()/pipe.cpu.Seconds(), "cpu-of-pipe")
}

// spent is what one of the programs under comparison used, over all its runs.
type spent struct {
	runs      int
	wall, cpu time.Duration
}

func (s *spent) add(f func()) {
	start, cpu := time.Now(), cpuTime()
	f()
	s.runs++
	s.wall += time.Since(start)
	s.cpu += cpuTime() - cpu
}

func (s *spent) rate() float64 { return float64(s.runs) * bulkSize / 1e6 / s.wall.Seconds() }

// cpuTime is what the process has used, which other work on the machine does
// not change as it changes the clock on the wall.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// bulkObject puts a file of bulkSize bytes into the store.
func bulkObject(b *testing.B, s *memStore) (*os.File, b3.Root) {
	f, err := os.Create(filepath.Join(b.TempDir(), "bulk"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = f.Close() })
	var outboard bytes.Buffer
	h := b3.NewHasher(&outboard, 2)
	for i := range bulkSize >> 20 {
		p := testData(1<<20, uint64(i))
		if _, err := f.Write(p); err != nil {
			b.Fatal(err)
		}
		_, _ = h.Write(p)
	}
	root, _, err := h.Sum()
	if err != nil {
		b.Fatal(err)
	}
	s.objects[root] = &memObject{store: s, source: b3.FileSource(f, bytes.NewReader(outboard.Bytes()), bulkSize),
		size: bulkSize}
	return f, root
}

const pipeBuffer = 256 << 10

func sendPipe(st network.Stream, f *os.File, hash bool) {
	defer st.Close()
	var one [1]byte
	if _, err := io.ReadFull(st, one[:]); err != nil {
		return
	}
	buf := make([]byte, pipeBuffer)
	h := b3.NewHasher(nil, 1)
	for off := int64(0); off < bulkSize; {
		n, err := f.ReadAt(buf, off)
		if n == 0 {
			panic(err)
		}
		if hash {
			_, _ = h.Write(buf[:n])
		}
		if _, err := st.Write(buf[:n]); err != nil {
			return
		}
		off += int64(n)
	}
	_, _, _ = h.Sum()
}

func receivePipe(b *testing.B, st network.Stream, hash bool) (total int64) {
	buf := make([]byte, pipeBuffer)
	h := b3.NewHasher(nil, 1)
	for {
		n, err := st.Read(buf)
		if hash {
			_, _ = h.Write(buf[:n])
		}
		total += int64(n)
		if errors.Is(err, io.EOF) {
			_, _, _ = h.Sum()
			return total
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

// countSink counts the bytes of groups.
type countSink struct{ n int64 }

func (s *countSink) Begin(int, int64) error { return nil }
func (s *countSink) Item(_ int, p b3.Proved) error {
	if !p.IsParent() {
		s.n += int64(len(p.Data()))
	}
	return nil
}
func (s *countSink) End(_ int, err error) error { return err }

// BenchmarkSmall fetches 10,000 objects of 4 KiB over one connection, four
// requests at a time.
func BenchmarkSmall(b *testing.B) {
	const count, size, workers = 10_000, 4096, 4
	l := newLoopback(b, "tcp", DefaultConfig())
	objs := make([]b3.Root, count)
	for i := range objs {
		p := testData(size, uint64(i))
		p[0], p[1] = byte(i), byte(i>>8)
		objs[i] = l.store.put(p)
	}
	b.ReportAllocs()
	for b.Loop() {
		var wg sync.WaitGroup
		batches := make(chan []b3.Root)
		for range workers {
			wg.Go(func() {
				for batch := range batches {
					s := &countSink{}
					if err := l.client.Get(b.Context(), l.to.ID(), GetRequest{Objs: batch}, s); err != nil ||
						s.n != int64(len(batch)*size) {
						b.Error(err, s.n)
					}
				}
			})
		}
		for at := 0; at < count; at += MaxGet {
			batches <- objs[at:min(at+MaxGet, count)]
		}
		close(batches)
		wg.Wait()
	}
	b.ReportMetric(count*float64(b.N)/b.Elapsed().Seconds(), "objects/s")
}
