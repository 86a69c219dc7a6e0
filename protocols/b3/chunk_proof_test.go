package b3

import (
	"bytes"
	"errors"
	"testing"
)

// proofReader returns a reader of size bytes and their address.
func proofReader(tb testing.TB, size int64) *Reader {
	tb.Helper()
	p := make([]byte, size)
	for i := range p {
		p[i] = byte(i * 7 >> 3)
	}
	var outboard bytes.Buffer
	h := NewHasher(&outboard, 1)
	if _, err := h.Write(p); err != nil {
		tb.Fatal(err)
	}
	root, _, err := h.Sum()
	if err != nil {
		tb.Fatal(err)
	}
	return NewReader(root, size, FileSource(bytes.NewReader(p), bytes.NewReader(outboard.Bytes()), size))
}

// TestChunkProof: at every boundary of chunks and groups the proof of a chunk is accepted for this
// chunk alone, and no changed, cut or longer one is.
func TestChunkProof(t *testing.T) {
	t.Parallel()
	for _, size := range []int64{
		0, 1, 1023, 1024, 1025, 2048, 3 << 10, 5<<10 + 1, 20 << 10, 33<<10 + 7, GroupSize - 1, GroupSize, GroupSize + 1,
		2 * GroupSize, 3*GroupSize + 5<<10, 5*GroupSize + 1,
	} {
		r := proofReader(t, size)
		n := Chunks(size)
		for chunk := range n {
			proof, err := r.ChunkProof(chunk)
			if err != nil {
				t.Fatalf("%d bytes, chunk %d: %v", size, chunk, err)
			}
			if err := VerifyChunkProof(r.Root(), size, chunk, proof); err != nil {
				t.Fatalf("%d bytes: %v", size, err)
			}
			if n > 1 {
				if err := VerifyChunkProof(r.Root(), size, (chunk+1)%n, proof); !errors.Is(err, ErrCorrupt) {
					t.Fatalf("%d bytes: the proof of chunk %d counts for the next: %v", size, chunk, err)
				}
			}
			if err := VerifyChunkProof(r.Root(), size, chunk, append(bytes.Clone(proof), 0)); err == nil {
				t.Fatalf("%d bytes, chunk %d: a longer proof is accepted", size, chunk)
			}
			for at := 0; at < len(proof); at += 37 {
				bad := bytes.Clone(proof)
				bad[at] ^= 1
				if err := VerifyChunkProof(r.Root(), size, chunk, bad); !errors.Is(err, ErrCorrupt) {
					t.Fatalf("%d bytes, chunk %d, byte %d: %v", size, chunk, at, err)
				}
				if err := VerifyChunkProof(r.Root(), size, chunk, proof[:at]); err == nil {
					t.Fatalf("%d bytes, chunk %d: %d bytes of the proof are accepted", size, chunk, at)
				}
			}
		}
		for _, chunk := range []int64{-1, n} {
			if _, err := r.ChunkProof(chunk); err == nil {
				t.Errorf("%d bytes: chunk %d is proved", size, chunk)
			}
			if err := VerifyChunkProof(r.Root(), size, chunk, nil); !errors.Is(err, ErrCorrupt) {
				t.Errorf("%d bytes: chunk %d: %v", size, chunk, err)
			}
		}
	}
}

// maxChunkProof is the length in bytes of the longest chunk proof, that of an object of MaxSize.
const maxChunkProof = ChunkSize + Size*maxChunkDepth

// FuzzVerifyChunkProof: no bytes make the check panic, and only the true proof of a chunk passes.
func FuzzVerifyChunkProof(f *testing.F) {
	r := proofReader(f, 3*GroupSize+5<<10)
	const chunk = 70
	proof, err := r.ChunkProof(chunk)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(r.Size(), int64(chunk), proof)
	f.Add(r.Size(), int64(chunk), proof[:len(proof)-Size])
	f.Add(int64(MaxSize), int64(MaxSize/ChunkSize-1), proof)
	f.Add(int64(0), int64(0), []byte{})
	f.Add(int64(-1), int64(-1), []byte{1})
	f.Fuzz(func(t *testing.T, size, n int64, p []byte) {
		err := VerifyChunkProof(r.Root(), size, n, p)
		if err == nil && size == r.Size() && n == chunk && !bytes.Equal(p, proof) {
			t.Error("another proof passes")
		}
		if err == nil && len(p) > maxChunkProof {
			t.Errorf("a proof of %d bytes passes", len(p))
		}
	})
}

// BenchmarkChunkProof makes and checks a proof; compare it with the hash of one group.
func BenchmarkChunkProof(b *testing.B) {
	for name, of := range map[string]struct{ size, chunk int64 }{"challenge": {16 << 20, 8000}, "small": {4 << 10, 2}} {
		r := proofReader(b, of.size)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				proof, err := r.ChunkProof(of.chunk)
				if err != nil {
					b.Fatal(err)
				}
				if err := VerifyChunkProof(r.Root(), r.Size(), of.chunk, proof); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("group", func(b *testing.B) {
		p := make([]byte, GroupSize)
		for b.Loop() {
			groupCV(p, 1, false)
		}
	})
}
