package oap_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/klauspost/compress/zstd"

	"allium/protocols/oap"
)

var codec = oap.NewCodec(2)

// text returns data that compresses to about a quarter, so that it stays within maxInflateRatio.
func text(n int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	p := make([]byte, 0, n+32)
	for len(p) < n {
		for bits, i := r.Uint64(), 0; i < 32; i++ {
			p = append(p, "abcd"[bits>>(2*i)&3])
		}
	}
	return p[:n]
}

func TestCompressRoundTrip(t *testing.T) {
	for _, n := range []int{2000, 65_536, 65_537, oap.MaxFrame, 4 * oap.MaxFrame} {
		in := text(n)
		z, ok := codec.Compress([]byte("head"), in, oap.MaxFrame)
		if !ok || !bytes.HasPrefix(z, []byte("head")) {
			t.Fatalf("%d bytes: not compressed", n)
		}
		for _, dst := range [][]byte{nil, make([]byte, 0, n), make([]byte, 3, 10)} {
			out, err := codec.Inflate(dst, z[4:], oap.MaxFrame)
			if err != nil || !bytes.Equal(out, in) {
				t.Fatalf("%d bytes: %v", n, err)
			}
		}
	}
}

// TestCompressDeclines checks that Compress leaves a payload as it is if the result would not be
// shorter or the receiver would refuse it.
func TestCompressDeclines(t *testing.T) {
	random := make([]byte, 1000)
	rand.NewChaCha8([32]byte{1}).Read(random)
	for name, in := range map[string][]byte{"empty": nil, "random": random, "ratio": make([]byte, 1<<20)} {
		if z, ok := codec.Compress(nil, in, oap.MaxFrame); ok || z != nil {
			t.Errorf("%s: %d bytes became %d", name, len(in), len(z))
		}
	}
	if _, ok := codec.Compress(nil, text(1<<20+1), oap.MinMaxFrame); ok {
		t.Error("more than 8 × max_frame")
	}
	if _, ok := codec.Compress(nil, make([]byte, 64<<10), oap.MaxFrame); !ok {
		t.Error("64 KiB of zeros: the ratio does not count there")
	}
}

func encodeZstd(t testing.TB, in []byte, opts ...zstd.EOption) []byte {
	e, err := zstd.NewWriter(nil, append(opts, zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderLevel(zstd.SpeedFastest))...)
	if err != nil {
		t.Fatal(err)
	}
	return e.EncodeAll(in, nil)
}

// streamZstd returns data as zstd without a content size in the header.
func streamZstd(t testing.TB, in []byte, opts ...zstd.EOption) []byte {
	var b bytes.Buffer
	e, err := zstd.NewWriter(&b, append(opts, zstd.WithEncoderConcurrency(1))...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Write(in); err != nil {
		t.Fatal(err)
	}
	_ = e.Flush() // so that the frame cannot become a single segment
	_ = e.Close()
	return b.Bytes()
}

func TestInflateTakesOtherEncoders(t *testing.T) {
	in := text(300_000)
	half := encodeZstd(t, in[:150_000])
	for name, z := range map[string][]byte{
		"no content size": streamZstd(t, in),
		"checksum":        encodeZstd(t, in, zstd.WithEncoderCRC(true)),
		"8 MiB window":    streamZstd(t, in, zstd.WithWindowSize(8<<20)),
		"two zstd frames": append(half, encodeZstd(t, in[150_000:])...),
	} {
		if out, err := codec.Inflate(nil, z, oap.MaxFrame); err != nil || !bytes.Equal(out, in) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestInflateBounds(t *testing.T) {
	for name, tc := range map[string]struct {
		z        []byte
		maxFrame uint32
	}{
		"16 MiB window":             {streamZstd(t, text(300_000), zstd.WithWindowSize(16<<20)), oap.MaxFrame},
		"ratio, size announced":     {encodeZstd(t, make([]byte, 8<<20)), oap.MaxFrame},
		"ratio, size not announced": {streamZstd(t, make([]byte, 8<<20)), oap.MaxFrame},
		"8 × max_frame":             {encodeZstd(t, text(8<<20+1)), oap.MaxFrame},
		"8 × a lower max_frame":     {encodeZstd(t, text(1<<20+1)), oap.MinMaxFrame},
		"second frame is the bomb": {append(encodeZstd(t, text(100)),
			encodeZstd(t, make([]byte, 8<<20))...), oap.MaxFrame},
		"broken checksum": {flipLast(encodeZstd(t, text(100), zstd.WithEncoderCRC(true))), oap.MaxFrame},
		"trailing data":   {append(encodeZstd(t, text(100)), 1, 2, 3, 4, 5, 6, 7, 8), oap.MaxFrame},
	} {
		_, err := codec.Inflate(nil, tc.z, tc.maxFrame)
		var de *oap.DecodeError
		if !errors.As(err, &de) || de.Reason != oap.ReasonInflateBound {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := codec.Inflate(nil, encodeZstd(t, text(8<<20)), oap.MaxFrame); err != nil {
		t.Errorf("exactly 8 × max_frame: %v", err)
	}
}

func flipLast(p []byte) []byte {
	p[len(p)-1] ^= 1
	return p
}

// TestInflateMemory checks that a decompression bomb allocates no more memory than the bound.
func TestInflateMemory(t *testing.T) {
	bomb := streamZstd(t, make([]byte, 64<<20))
	dst := make([]byte, 0, 1<<20)
	const rounds = 20
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range rounds {
		_, _ = codec.Inflate(dst, bomb, oap.MaxFrame)
	}
	runtime.ReadMemStats(&after)
	if per := (after.TotalAlloc - before.TotalAlloc) / rounds; per > 512<<10 {
		t.Errorf("%d bytes allocated to refuse %d", per, len(bomb))
	}
}
