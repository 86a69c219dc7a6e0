package gateway

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
	"unicode"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// noise is n bytes that do not shrink, always the same.
func noise(n int) []byte {
	p := make([]byte, n)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(p)
	return p
}

// gzipped is parts in gzip, a member each.
func gzipped(t testing.TB, parts ...[]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	for _, p := range parts {
		z := gzip.NewWriter(&b)
		_, err := z.Write(p)
		if err = errors.Join(err, z.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// zstdFrame is p as one frame of zstd, without a checksum.
func zstdFrame(t testing.TB, p []byte) []byte {
	t.Helper()
	e, err := zstd.NewWriter(nil, zstd.WithEncoderCRC(false), zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	return e.EncodeAll(p, nil)
}

// unprintable reports whether r is one that pages and errors show as its number.
func unprintable(r rune) bool { return !unicode.IsPrint(r) }
