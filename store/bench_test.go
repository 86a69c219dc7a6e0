package store_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"sync"
	"testing"

	"allium/protocols/b3"
	"allium/store"
	"allium/store/storetest"
)

func embedded(dir string) store.Config {
	cfg := store.DefaultConfig()
	cfg.Dir = dir
	return cfg
}

func fresh(seed uint64, n int) []byte {
	p := make([]byte, n)
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	_, _ = rand.NewChaCha8(key).Read(p)
	return p
}

// BenchmarkPutDurable is the measure of notes and SPEC: 4 KiB objects, each
// durable, 16 writers.
func BenchmarkPutDurable(b *testing.B) {
	s, _ := storetest.Start(b, embedded(b.TempDir()), store.Deps{})
	const writers = 16
	b.SetBytes(4 << 10)
	b.ResetTimer()
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			p := fresh(uint64(w), 4<<10)
			for i := w; i < b.N; i += writers {
				binary.LittleEndian.PutUint64(p, uint64(i))
				if _, err := s.PutBytes(b.Context(), p, store.PutOptions{}); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "puts/s")
}

func BenchmarkPutDeferred(b *testing.B) {
	s, _ := storetest.Start(b, embedded(b.TempDir()), store.Deps{})
	p := fresh(1, 4<<10)
	b.SetBytes(4 << 10)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		binary.LittleEndian.PutUint64(p, uint64(i))
		if _, err := s.PutBytes(b.Context(), p, store.PutOptions{Deferred: true}); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "puts/s")
}

func BenchmarkPutLarge(b *testing.B) {
	const size = 256 << 20
	s, _ := storetest.Start(b, embedded(b.TempDir()), store.Deps{})
	p := fresh(2, size)
	b.SetBytes(size)
	b.ResetTimer()
	for i := range b.N {
		binary.LittleEndian.PutUint64(p, uint64(i))
		info, err := s.Put(b.Context(), bytes.NewReader(p), store.PutOptions{})
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := s.Delete(b.Context(), info.Root); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

func BenchmarkOpenSmall(b *testing.B) {
	s, _ := storetest.Start(b, embedded(b.TempDir()), store.Deps{})
	const n = 10_000
	roots := make([]b3.Root, n)
	p := fresh(3, 4<<10)
	for i := range roots {
		binary.LittleEndian.PutUint64(p, uint64(i))
		info, err := s.PutBytes(b.Context(), p, store.PutOptions{Deferred: true})
		if err != nil {
			b.Fatal(err)
		}
		roots[i] = info.Root
	}
	if err := s.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(4 << 10)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		o, err := s.Open(b.Context(), roots[i*7919%n])
		if err != nil {
			b.Fatal(err)
		}
		o.Close()
	}
}

func BenchmarkReadLarge(b *testing.B) {
	const size = 64 << 20
	s, _ := storetest.Start(b, embedded(b.TempDir()), store.Deps{})
	info, err := s.PutBytes(b.Context(), fresh(4, size), store.PutOptions{})
	if err != nil {
		b.Fatal(err)
	}
	o, err := s.Open(b.Context(), info.Root)
	if err != nil {
		b.Fatal(err)
	}
	defer o.Close()
	b.SetBytes(size)
	b.ResetTimer()
	for range b.N {
		sec := o.Reader().Section(0, -1)
		if _, err := sec.WriteTo(io.Discard); err != nil {
			b.Fatal(err)
		}
		sec.Close()
	}
}
