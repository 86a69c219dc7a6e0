package b3

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/zeebo/blake3"
)

func BenchmarkSum(b *testing.B) {
	for _, n := range []int{100, 1 << 10, 3000, 4 << 10, 16 << 10, 64 << 10, 1 << 20} {
		p := pattern(n)
		b.Run(fmt.Sprintf("%d", n), func(b *testing.B) {
			b.SetBytes(int64(n))
			b.ReportAllocs()
			for b.Loop() {
				Sum(p)
			}
		})
		b.Run(fmt.Sprintf("zeebo/%d", n), func(b *testing.B) {
			b.SetBytes(int64(n))
			b.ReportAllocs()
			for b.Loop() {
				blake3.Sum256(p)
			}
		})
	}
}

func BenchmarkHasher(b *testing.B) {
	p := pattern(64 << 20)
	for _, w := range []int{1, 2, 3} {
		h := NewHasher(nil, w)
		b.Run(fmt.Sprintf("write/workers=%d", w), func(b *testing.B) {
			b.SetBytes(int64(len(p)))
			b.ReportAllocs()
			for b.Loop() {
				h.Reset(io.Discard)
				h.Write(p)
				h.Sum()
			}
		})
		b.Run(fmt.Sprintf("readfrom/workers=%d", w), func(b *testing.B) {
			r := bytes.NewReader(p)
			b.SetBytes(int64(len(p)))
			b.ReportAllocs()
			for b.Loop() {
				h.Reset(io.Discard)
				r.Reset(p)
				h.ReadFrom(r)
				h.Sum()
			}
		})
	}
}
