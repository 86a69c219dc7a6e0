package b3

import (
	"golang.org/x/sys/cpu"
	"lukechampine.com/blake3/guts"
)

//go:generate go -C ../../tools run ./b3asm -out ../protocols/b3/kernel_amd64.s

// lanes is how many inputs the assembly hashes at a time.
const lanes = 8

// fullGroupCV is groupCV for a full group, by AVX2 assembly where the machine
// has it: two thirds of the time that guts takes.
func fullGroupCV(p *[GroupSize]byte, counter uint64) (cv [Size]byte, ok bool) {
	if !cpu.X86.HasAVX2 {
		return cv, false
	}
	var (
		cvs      [GroupSize / guts.ChunkSize * Size]byte
		counters [2][lanes]uint32
		chunk    = [guts.ChunkSize / guts.BlockSize]uint32{0: guts.FlagChunkStart, guts.ChunkSize/guts.BlockSize - 1: guts.FlagChunkEnd}
		parent   = [1]uint32{guts.FlagParent}
	)
	for at := 0; at < len(p); at += lanes * guts.ChunkSize {
		for i := range lanes {
			counters[0][i], counters[1][i] = uint32(counter), uint32(counter>>32)
			counter++
		}
		hash8(&p[at], guts.ChunkSize, chunk[:], &counters, &cvs[at/guts.ChunkSize*Size])
	}
	// Two neighbours are a parent as they lie. Each pass halves what is left; the
	// last three fill some lanes with what is not, which nothing uses.
	counters = [2][lanes]uint32{}
	for n := len(cvs) / 2; n >= Size; n /= 2 {
		for at := 0; at < n; at += lanes * Size {
			hash8(&cvs[2*at], ParentSize, parent[:], &counters, &cvs[at])
		}
	}
	return [Size]byte(cvs[:]), true
}

// hash8 stores at out, one after the other, the chaining values of eight inputs.
// Input i begins stride*i bytes into in and is one block for each of flags, of
// which there must be one or more, long. counters has the low and the high words
// of the inputs' counters. out may overlap an input of one block. The machine
// must have AVX2.
//
//go:noescape
func hash8(in *byte, stride uint64, flags []uint32, counters *[2][lanes]uint32, out *byte)
