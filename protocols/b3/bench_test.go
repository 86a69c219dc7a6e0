package b3

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"lukechampine.com/blake3/guts"
)

func BenchmarkSum(b *testing.B) {
	for _, n := range []int{100, 1 << 10, 4 << 10, 64 << 10, 1 << 20} {
		p := pattern(n)
		b.Run(fmt.Sprintf("%d", n), func(b *testing.B) {
			b.SetBytes(int64(n))
			b.ReportAllocs()
			for b.Loop() {
				Sum(p)
			}
		})
	}
}

// BenchmarkGroup is the chaining value of a full group, by the kernel that this
// machine gets and by guts.
func BenchmarkGroup(b *testing.B) {
	p := pattern(GroupSize)
	for _, k := range []struct {
		name string
		hash func() [Size]byte
	}{
		{"kernel", func() [Size]byte { return groupCV(p, 1, false) }},
		{"guts", func() [Size]byte { return portableGroupCV(p, GroupSize/guts.ChunkSize) }},
	} {
		b.Run(k.name, func(b *testing.B) {
			b.SetBytes(GroupSize)
			b.ReportAllocs()
			for b.Loop() {
				k.hash()
			}
		})
	}
}

// BenchmarkHasher is hash and outboard of 64 MiB that lie in memory.
func BenchmarkHasher(b *testing.B) {
	p := pattern(64 << 20)
	for _, workers := range []int{1, 2} {
		h := NewHasher(nil, workers)
		for name, feed := range map[string]func(){
			"Write":    func() { h.Write(p) },
			"ReadFrom": func() { h.ReadFrom(bytes.NewReader(p)) },
		} {
			b.Run(fmt.Sprintf("%s/workers=%d", name, workers), func(b *testing.B) {
				b.SetBytes(int64(len(p)))
				b.ReportAllocs()
				for b.Loop() {
					h.Reset(io.Discard)
					feed()
					if _, _, err := h.Sum(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkSmallPut is one object after the other through one Hasher.
func BenchmarkSmallPut(b *testing.B) {
	p := pattern(4 << 10)
	h := NewHasher(nil, 2)
	b.SetBytes(int64(len(p)))
	b.ReportAllocs()
	for b.Loop() {
		h.Reset(nil)
		h.Write(p)
		if _, _, err := h.Sum(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAccept is a receiver's work on the items of 16 MiB.
func BenchmarkAccept(b *testing.B) {
	o := newObject(b, 16<<20)
	items := o.reference(func(int64) bool { return true })
	b.SetBytes(o.size())
	b.ReportAllocs()
	for b.Loop() {
		w, err := NewWalk(o.root, o.size(), nil)
		if err != nil {
			b.Fatal(err)
		}
		for _, e := range items {
			if _, err := w.Accept(e.data); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkReader reads an object of 256 MiB from files: as a stream, and a
// random group at a time.
func BenchmarkReader(b *testing.B) {
	const size = 256 << 20
	data, out := create(b, "data"), create(b, "outboard")
	h := NewHasher(out, 2)
	if _, err := h.ReadFrom(io.TeeReader(io.LimitReader(rand.NewChaCha8([32]byte{}), size), data)); err != nil {
		b.Fatal(err)
	}
	root, _, err := h.Sum()
	if err != nil {
		b.Fatal(err)
	}
	r := NewReader(root, size, FileSource(data, out, size))
	b.Run("stream", func(b *testing.B) {
		b.SetBytes(size)
		b.ReportAllocs()
		for b.Loop() {
			s := r.Section(0, -1)
			if _, err := s.WriteTo(io.Discard); err != nil {
				b.Fatal(err)
			}
			s.Close()
		}
	})
	b.Run("random", func(b *testing.B) {
		buf := make([]byte, GroupSize)
		b.SetBytes(GroupSize)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := r.ReadGroup(rand.Int64N(Groups(size)), buf); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func create(b *testing.B, name string) *os.File {
	b.Helper()
	f, err := os.Create(filepath.Join(b.TempDir(), name))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { f.Close() })
	return f
}
