package b3

import (
	"math/rand/v2"
	"testing"

	"github.com/zeebo/blake3"
	"lukechampine.com/blake3/guts"
)

// TestKernelsAgree: the assembly and guts give the same values at every position
// of a group, also where the chunk counter passes 32 bits.
func TestKernelsAgree(t *testing.T) {
	p := make([]byte, GroupSize)
	rng := rand.NewChaCha8([32]byte{})
	for _, index := range []int64{0, 1, 2, 3, 1<<26 - 1, 1 << 26, 1<<26 + 1, 1<<46 - 1, 1<<47 - 1} {
		for range 4 {
			rng.Read(p)
			want := chunkwise(p, uint64(index)*64, false)
			if got := portableGroupCV(p, uint64(index)*64); got != want {
				t.Fatalf("guts, group %d: got %x, want %x", index, got, want)
			}
			if got := groupCV(p, index, false); got != want {
				t.Fatalf("group %d: got %x, want %x", index, got, want)
			}
		}
	}
	for _, n := range []int{1, 64, 1023, 1024, 1025, 2047, 2048, 8192, 8193, 16383, 16384, 16385, 32768, 32769, 49152,
		49153, 65535} {
		if got, want := groupCV(p[:n], 1<<26-1, false), chunkwise(p[:n], (1<<26-1)*64, false); got != want {
			t.Fatalf("%d bytes: got %x, want %x", n, got, want)
		}
	}
}

// chunkwise is a group's chaining value, or the address of the object that p is
// (root), by BLAKE3's definition, a chunk at a time.
func chunkwise(p []byte, counter uint64, root bool) [Size]byte {
	var rec func(p []byte, counter uint64) guts.Node
	rec = func(p []byte, counter uint64) guts.Node {
		if len(p) <= guts.ChunkSize {
			return guts.CompressChunk(p, &guts.IV, counter, 0)
		}
		half := guts.ChunkSize
		for 2*half < len(p) {
			half *= 2
		}
		left, right := rec(p[:half], counter), rec(p[half:], counter+uint64(half/guts.ChunkSize))
		return guts.ParentNode(guts.ChainingValue(left), guts.ChainingValue(right), &guts.IV, 0)
	}
	node := rec(p, counter)
	if root {
		node.Flags |= guts.FlagRoot
	}
	return bytesOf(guts.ChainingValue(node))
}

// TestSumAgrees compares one-shot sums with a library that shares no code with
// the tree.
func TestSumAgrees(t *testing.T) {
	for _, n := range sizes() {
		p := pattern(n)
		if got, want := Sum(p), Root(blake3.Sum256(p)); got != want {
			t.Fatalf("%d bytes: got %s, want %s", n, got, want)
		}
	}
}
