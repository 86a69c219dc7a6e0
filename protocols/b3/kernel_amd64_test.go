package b3

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/cpu"
	"lukechampine.com/blake3/guts"
)

// TestHash8 compares the assembly with guts a block at a time: any position of
// the input, any distance between inputs, any number of blocks, and flags and
// counters that have nothing to do with each other.
func TestHash8(t *testing.T) {
	if !cpu.X86.HasAVX2 {
		t.Skip("no AVX2")
	}
	const guard = 64
	seed := rand.NewChaCha8([32]byte{})
	rng := rand.New(seed)
	in := make([]byte, 32<<10)
	var before, out [guard + simdInputs*Size + guard]byte
	for range 1000 {
		seed.Read(in)
		seed.Read(before[:])
		out = before
		flags := make([]uint32, 1+rng.IntN(16))
		for i := range flags {
			flags[i] = rng.Uint32()
		}
		var counters [2][simdInputs]uint32
		for i := range simdInputs {
			counters[0][i], counters[1][i] = rng.Uint32(), rng.Uint32()
		}
		stride := rng.IntN(2 << 10)
		start := rng.IntN(len(in) - (simdInputs-1)*stride - len(flags)*guts.BlockSize + 1)
		hash8(&in[start], uint64(stride), flags, &counters, &out[guard])

		want := before
		for i := range simdInputs {
			cv := guts.IV
			for k, f := range flags {
				cv = guts.ChainingValue(guts.Node{
					CV:       cv,
					Block:    guts.BytesToWords([guts.BlockSize]byte(in[start+i*stride+k*guts.BlockSize:])),
					Counter:  uint64(counters[1][i])<<32 | uint64(counters[0][i]),
					BlockLen: guts.BlockSize,
					Flags:    f,
				})
			}
			for w, word := range cv {
				binary.LittleEndian.PutUint32(want[guard+i*Size+w*4:], word)
			}
		}
		if out != want {
			t.Fatalf("%d blocks from %d, %d apart: got\n%x, want\n%x", len(flags), start, stride, out, want)
		}
	}
}

// TestHash8InPlace: parents may replace the first of their children.
func TestHash8InPlace(t *testing.T) {
	if !cpu.X86.HasAVX2 {
		t.Skip("no AVX2")
	}
	in := pattern(simdInputs * ParentSize)
	var counters [2][simdInputs]uint32
	out := make([]byte, simdInputs*Size)
	hash8(&in[0], ParentSize, []uint32{guts.FlagParent}, &counters, &out[0])
	hash8(&in[0], ParentSize, []uint32{guts.FlagParent}, &counters, &in[0])
	if !bytes.Equal(in[:len(out)], out) {
		t.Fatalf("in place %x, apart %x", in[:len(out)], out)
	}
}
