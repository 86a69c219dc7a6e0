package store_test

import (
	"bytes"
	"encoding/binary"
	"io"
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

func BenchmarkPutDeferred(b *testing.B) {
	s, _ := storetest.Start(b, embedded(b.TempDir()), store.Deps{})
	p := storetest.Bytes(1, 4<<10)
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
	p := storetest.Bytes(2, size)
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
	p := storetest.Bytes(3, 4<<10)
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
	info, err := s.PutBytes(b.Context(), storetest.Bytes(4, size), store.PutOptions{})
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

// BenchmarkIngest stores a download whose items are proved already.
func BenchmarkIngest(b *testing.B) {
	const size = 64 << 20
	s, _ := storetest.Start(b, embedded(b.TempDir()), store.Deps{})
	p := storetest.Bytes(5, size)
	items := storetest.Items(b, p, size)
	root := b3.Sum(p)
	b.SetBytes(size)
	b.ResetTimer()
	for range b.N {
		in, err := s.Ingest(b.Context(), root, size)
		if err != nil {
			b.Fatal(err)
		}
		for _, item := range items {
			if err := in.Write(item); err != nil {
				b.Fatal(err)
			}
		}
		if _, err := in.Commit(b.Context(), false); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := s.Delete(b.Context(), root); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
