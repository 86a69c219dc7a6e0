package oap

import (
	"fmt"
	"io"
	"testing"
)

var benchSizes = []int{256, 64 << 10, MaxFrame - HeaderSize}

func sizeName(n int) string {
	if n == MaxFrame-HeaderSize {
		return "1MiB-header"
	}
	return fmt.Sprintf("%dB", n)
}

func frameRate(b *testing.B) {
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "frames/s")
}

func BenchmarkDecode(b *testing.B) {
	for _, size := range benchSizes {
		b.Run(sizeName(size), func(b *testing.B) {
			r := NewReader(&loop{data: encoded(b, size, max(1, (2<<20)/(size+HeaderSize)))}, MaxFrame)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := r.Next(); err != nil {
					b.Fatal(err)
				}
			}
			frameRate(b)
		})
	}
}

func BenchmarkEncode(b *testing.B) {
	for _, size := range benchSizes {
		b.Run(sizeName(size), func(b *testing.B) {
			w := NewWriter(io.Discard, MaxFrame)
			f := Frame{Header: Header{Flags: FlagResp | FlagStart, CorrID: 1}, Payload: make([]byte, size)}
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if err := w.Write(f); err != nil {
					b.Fatal(err)
				}
			}
			frameRate(b)
		})
	}
}

// BenchmarkEncodeBuilder measures sending bulk data: the payload is made in place.
func BenchmarkEncodeBuilder(b *testing.B) {
	for _, size := range benchSizes {
		b.Run(sizeName(size), func(b *testing.B) {
			w, f := NewWriter(io.Discard, MaxFrame), NewBuilder(MaxFrame)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				f.Reset(Header{Flags: FlagResp | FlagStart, CorrID: 1})
				f.Next(size)
				f.Commit(size)
				if err := w.WriteBuilder(f); err != nil {
					b.Fatal(err)
				}
			}
			frameRate(b)
		})
	}
}
