package b3

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/cpu"
	"lukechampine.com/blake3/guts"
)

// kernels are the functions of the assembly, those that this machine has not got too.
var kernels = []struct {
	name   string
	has    bool
	inputs int
	hash   func(in *byte, stride uint64, flags, low, high []uint32, out *byte)
	group  func(p *[GroupSize]byte, counter uint64) [Size]byte
}{
	{"AVX2", cpu.X86.HasAVX2, 8, func(in *byte, stride uint64, flags, low, high []uint32, out *byte) {
		hash8(in, stride, flags, &[2][8]uint32{[8]uint32(low), [8]uint32(high)}, out)
	}, groupCV8},
	{"AVX-512", cpu.X86.HasAVX512F, 16, func(in *byte, stride uint64, flags, low, high []uint32, out *byte) {
		hash16(in, stride, flags, &[2][16]uint32{[16]uint32(low), [16]uint32(high)}, out)
	}, groupCV16},
}

// TestHash compares the assembly with guts a block at a time: any position of
// the input, any distance between inputs, any number of blocks, and flags and
// counters that have nothing to do with each other.
func TestHash(t *testing.T) {
	for _, k := range kernels {
		t.Run(k.name, func(t *testing.T) {
			if !k.has {
				t.Skip("this machine has no " + k.name)
			}
			const guard = 64
			seed := rand.NewChaCha8([32]byte{})
			rng := rand.New(seed)
			in := make([]byte, 64<<10)
			before := make([]byte, guard+k.inputs*Size+guard)
			for range 1000 {
				seed.Read(in)
				seed.Read(before)
				out, want := bytes.Clone(before), bytes.Clone(before)
				flags, low, high := make([]uint32, 1+rng.IntN(16)), make([]uint32, k.inputs), make([]uint32, k.inputs)
				for _, words := range [][]uint32{flags, low, high} {
					for i := range words {
						words[i] = rng.Uint32()
					}
				}
				stride := rng.IntN(2 << 10)
				start := rng.IntN(len(in) - (k.inputs-1)*stride - len(flags)*guts.BlockSize + 1)
				k.hash(&in[start], uint64(stride), flags, low, high, &out[guard])
				for i := range k.inputs {
					cv := chainingValue(in[start+i*stride:], flags, uint64(high[i])<<32|uint64(low[i]))
					copy(want[guard+i*Size:], cv[:])
				}
				if !bytes.Equal(out, want) {
					t.Fatalf("%d blocks from %d, %d apart: got\n%x, want\n%x", len(flags), start, stride, out, want)
				}
			}
		})
	}
}

// chainingValue is that of an input of len(flags) blocks, by guts.
func chainingValue(in []byte, flags []uint32, counter uint64) (p [Size]byte) {
	cv := guts.IV
	for i, f := range flags {
		cv = guts.ChainingValue(guts.Node{
			CV:       cv,
			Block:    guts.BytesToWords([guts.BlockSize]byte(in[i*guts.BlockSize:])),
			Counter:  counter,
			BlockLen: guts.BlockSize,
			Flags:    f,
		})
	}
	for i, word := range cv {
		binary.LittleEndian.PutUint32(p[i*4:], word)
	}
	return p
}

// TestHashInPlace: parents may replace the first of their children.
func TestHashInPlace(t *testing.T) {
	for _, k := range kernels {
		if !k.has {
			continue
		}
		in, out := pattern(k.inputs*ParentSize), make([]byte, k.inputs*Size)
		zeros := make([]uint32, k.inputs)
		k.hash(&in[0], ParentSize, parentFlags[:], zeros, zeros, &out[0])
		k.hash(&in[0], ParentSize, parentFlags[:], zeros, zeros, &in[0])
		if !bytes.Equal(in[:len(out)], out) {
			t.Errorf("%s: in place %x, apart %x", k.name, in[:len(out)], out)
		}
	}
}

// TestKernelGroups: each kernel hashes full groups as guts does, also where the chunk counter
// passes 32 bits.
func TestKernelGroups(t *testing.T) {
	p := [GroupSize]byte(pattern(GroupSize))
	for _, k := range kernels {
		for _, counter := range []uint64{0, 64, 1<<32 - 64, 1<<32 - 8, 1 << 32, 1<<53 - 64} {
			if !k.has {
				continue
			}
			if got, want := k.group(&p, counter), portableGroupCV(p[:], counter); got != want {
				t.Errorf("%s, counter %d: got %x, want %x", k.name, counter, got, want)
			}
		}
	}
}

// BenchmarkKernel is the chaining value of a full group by each kernel.
func BenchmarkKernel(b *testing.B) {
	p := [GroupSize]byte(pattern(GroupSize))
	for _, k := range kernels {
		b.Run(k.name, func(b *testing.B) {
			if !k.has {
				b.Skip("this machine has no " + k.name)
			}
			b.SetBytes(GroupSize)
			for b.Loop() {
				k.group(&p, 64)
			}
		})
	}
}
