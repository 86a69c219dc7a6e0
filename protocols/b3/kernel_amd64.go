package b3

import (
	"golang.org/x/sys/cpu"
	"lukechampine.com/blake3/guts"
)

//go:generate go -C ../../tools run ./b3asm -out ../protocols/b3/kernel_amd64.s

// simdInputs is how many inputs the assembly hashes at a time.
const simdInputs = 8

// fullGroupCV computes groupCV for a full group with AVX2 assembly, in two thirds
// of the time of guts. It returns false on a machine without AVX2.
func fullGroupCV(p *[GroupSize]byte, counter uint64) (cv [Size]byte, ok bool) {
	if !cpu.X86.HasAVX2 {
		return cv, false
	}
	var (
		cvs      [GroupSize / guts.ChunkSize * Size]byte
		counters [2][simdInputs]uint32
		parent   = [1]uint32{guts.FlagParent}
	)
	const blocks = guts.ChunkSize / guts.BlockSize
	chunk := [blocks]uint32{0: guts.FlagChunkStart, blocks - 1: guts.FlagChunkEnd}
	for at := 0; at < len(p); at += simdInputs * guts.ChunkSize {
		for i := range simdInputs {
			counters[0][i], counters[1][i] = uint32(counter), uint32(counter>>32)
			counter++
		}
		hash8(&p[at], guts.ChunkSize, chunk[:], &counters, &cvs[at/guts.ChunkSize*Size])
	}
	// Two adjacent chaining values are a parent. Each pass halves their number. The
	// last three passes have fewer than eight inputs; the other results are unused.
	counters = [2][simdInputs]uint32{}
	for n := len(cvs) / 2; n >= Size; n /= 2 {
		for at := 0; at < n; at += simdInputs * Size {
			hash8(&cvs[2*at], ParentSize, parent[:], &counters, &cvs[at])
		}
	}
	return [Size]byte(cvs[:]), true
}

// hash8 stores the chaining values of eight inputs at out, one after the other.
// Input i starts at byte stride*i of in and has len(flags) blocks, at least one;
// flags are the flags of its blocks. counters has the low and the high words of
// the inputs' counters. out may overlap inputs of one block. The machine must
// have AVX2.
//
//go:noescape
func hash8(in *byte, stride uint64, flags []uint32, counters *[2][simdInputs]uint32, out *byte)
