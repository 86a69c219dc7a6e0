package b3

import (
	"golang.org/x/sys/cpu"
	"lukechampine.com/blake3/guts"
)

//go:generate go -C ../../tools run ./b3asm -out ../protocols/b3/kernel_amd64.s

// chunks is the number of BLAKE3 chunks in a full group.
const chunks = GroupSize / guts.ChunkSize

// The flags of the blocks of a chunk and of a parent.
var (
	chunkFlags  = [guts.ChunkSize / guts.BlockSize]uint32{0: guts.FlagChunkStart, 15: guts.FlagChunkEnd}
	parentFlags = [1]uint32{guts.FlagParent}
)

// fullGroupCV computes groupCV for a full group with assembly, for AVX-512 or AVX2. It
// returns false on a machine without either.
func fullGroupCV(p *[GroupSize]byte, counter uint64) (cv [Size]byte, ok bool) {
	switch {
	case cpu.X86.HasAVX512F:
		return groupCV16(p, counter), true
	case cpu.X86.HasAVX2:
		return groupCV8(p, counter), true
	}
	return cv, false
}

// groupCV8 computes groupCV for a full group with AVX2.
func groupCV8(p *[GroupSize]byte, counter uint64) [Size]byte {
	const inputs = 8
	var (
		cvs      [chunks * Size]byte
		counters [2][inputs]uint32
	)
	for at := 0; at < chunks; at += inputs {
		for i := range inputs {
			counters[0][i], counters[1][i] = uint32(counter), uint32(counter>>32)
			counter++
		}
		hash8(&p[at*guts.ChunkSize], guts.ChunkSize, chunkFlags[:], &counters, &cvs[at*Size])
	}
	return parents8(&cvs, chunks/2)
}

// parents8 replaces 2n chaining values by those of their n parents, and these by those
// of theirs, until one is left. The last three passes have fewer than eight inputs; the
// other results are unused.
func parents8(cvs *[chunks * Size]byte, n int) [Size]byte {
	const inputs = 8
	var counters [2][inputs]uint32
	for ; n > 0; n /= 2 {
		for at := 0; at < n; at += inputs {
			hash8(&cvs[at*ParentSize], ParentSize, parentFlags[:], &counters, &cvs[at*Size])
		}
	}
	return [Size]byte(cvs[:])
}

// groupCV16 computes groupCV for a full group with AVX-512.
func groupCV16(p *[GroupSize]byte, counter uint64) [Size]byte {
	const inputs = 16
	var (
		cvs      [chunks * Size]byte
		counters [2][inputs]uint32
	)
	for at := 0; at < chunks; at += inputs {
		for i := range inputs {
			counters[0][i], counters[1][i] = uint32(counter), uint32(counter>>32)
			counter++
		}
		hash16(&p[at*guts.ChunkSize], guts.ChunkSize, chunkFlags[:], &counters, &cvs[at*Size])
	}
	counters = [2][inputs]uint32{}
	n := chunks / 2
	for ; n >= inputs; n /= 2 {
		for at := 0; at < n; at += inputs {
			hash16(&cvs[at*ParentSize], ParentSize, parentFlags[:], &counters, &cvs[at*Size])
		}
	}
	return parents8(&cvs, n)
}

// hash8 stores the chaining values of eight inputs at out, one after the other.
// Input i starts at byte stride*i of in and has len(flags) blocks, at least one;
// flags are the flags of its blocks. counters has the low and the high words of
// the inputs' counters. out may overlap inputs of one block. The machine must
// have AVX2.
//
//go:noescape
func hash8(in *byte, stride uint64, flags []uint32, counters *[2][8]uint32, out *byte)

// hash16 is hash8 for sixteen inputs. The machine must have AVX-512F.
//
//go:noescape
func hash16(in *byte, stride uint64, flags []uint32, counters *[2][16]uint32, out *byte)
