package b3

import (
	"encoding/binary"

	"golang.org/x/sys/cpu"
	"lukechampine.com/blake3/guts"
)

// lanes is how many chunks or parents one vector instruction works on.
const lanes = 8

// vector is the chaining values of eight neighbours, word by word: word w of
// value i is at w*lanes+i.
type vector [8 * lanes]uint32

// fullGroupCV is groupCV for a full group, by AVX2 assembly where the machine
// has it: a third less time than guts takes.
func fullGroupCV(p *[GroupSize]byte, counter uint64) (cv [Size]byte, ok bool) {
	if !cpu.X86.HasAVX2 {
		return cv, false
	}
	var v [GroupSize / (lanes * guts.ChunkSize)]vector
	var left, right vector
	var chain [8]uint32 // the assembly's account of a last chunk that is short
	for i := range v {
		block := (*[lanes * guts.ChunkSize]byte)(p[i*lanes*guts.ChunkSize:])
		hashChunks(block, uint64(len(block)), counter+uint64(i*lanes), 0, &guts.IV, &v[i], &chain)
	}
	// Halve the number of full vectors down to one, then what is in it.
	for n := len(v) / 2; n > 0; n /= 2 {
		for i := range n {
			deal(&v[2*i], &v[2*i+1], &left, &right)
			hashParents(&left, &right, guts.FlagParent, &guts.IV, &v[i], lanes)
		}
	}
	for n := lanes / 2; n > 0; n /= 2 {
		deal(&v[0], &v[1], &left, &right)
		hashParents(&left, &right, guts.FlagParent, &guts.IV, &v[0], n)
	}
	for w := range 8 {
		binary.LittleEndian.PutUint32(cv[4*w:], v[0][w*lanes])
	}
	return cv, true
}

// deal puts the left children among the sixteen values of a and b in left, the
// right ones in right.
func deal(a, b, left, right *vector) {
	for w := 0; w < len(a); w += lanes {
		for i := range lanes / 2 {
			left[w+i], right[w+i] = a[w+2*i], a[w+2*i+1]
			left[w+lanes/2+i], right[w+lanes/2+i] = b[w+2*i], b[w+2*i+1]
		}
	}
}

// hashChunks hashes the first length bytes of input, eight chunks numbered from
// counter. chain takes the state before the last block.
//
//go:noescape
func hashChunks(input *[lanes * guts.ChunkSize]byte, length, counter uint64, flags uint32, key *[8]uint32, out *vector, chain *[8]uint32)

// hashParents hashes the first n pairs of left and right. It may read and write
// all eight.
//
//go:noescape
func hashParents(left, right *vector, flags uint32, key *[8]uint32, out *vector, n int)
