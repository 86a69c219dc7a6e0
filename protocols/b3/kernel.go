package b3

import (
	"encoding/binary"

	"github.com/zeebo/blake3"
	"lukechampine.com/blake3/guts"
)

// kernelSize is the most bytes that one call of guts hashes: 16 BLAKE3 chunks.
const kernelSize = guts.MaxSIMD * guts.ChunkSize

// groupCV returns the chaining value of p, group number index of its object. If
// root is set, p is the whole object and the result is its address. groupCV does
// not allocate. It is the only caller of the hash kernels for data: zeebo/blake3
// for a whole object, assembly for a full group, and guts for a shorter group and
// for machines without AVX2.
func groupCV(p []byte, index int64, root bool) [Size]byte {
	if root {
		return blake3.Sum256(p)
	}
	counter := uint64(index) * (GroupSize / guts.ChunkSize)
	if len(p) == GroupSize {
		if cv, ok := fullGroupCV((*[GroupSize]byte)(p), counter); ok {
			return cv
		}
	}
	return portableGroupCV(p, counter)
}

// portableGroupCV computes groupCV with guts, for a group of any length.
func portableGroupCV(p []byte, counter uint64) [Size]byte {
	var cvs [GroupSize / kernelSize][8]uint32
	n := 0
	for len(p) > kernelSize {
		cvs[n] = guts.ChainingValue(guts.CompressBuffer((*[kernelSize]byte)(p), kernelSize, &guts.IV, counter, 0))
		n++
		counter += guts.MaxSIMD
		p = p[kernelSize:]
	}
	cv := guts.ChainingValue(compressTail(p, counter))
	switch n {
	case 1:
		cv = join(cvs[0], cv)
	case 2:
		cv = join(join(cvs[0], cvs[1]), cv)
	case 3:
		cv = join(join(cvs[0], cvs[1]), join(cvs[2], cv))
	}
	return bytesOf(cv)
}

// compressTail compresses at most kernelSize bytes with guts. guts reads whole
// vectors, so compressTail copies shorter input to a full buffer.
func compressTail(p []byte, counter uint64) guts.Node {
	if len(p) <= guts.ChunkSize {
		return guts.CompressChunk(p, &guts.IV, counter, 0)
	}
	if len(p) == kernelSize {
		return guts.CompressBuffer((*[kernelSize]byte)(p), kernelSize, &guts.IV, counter, 0)
	}
	var buf [kernelSize]byte
	copy(buf[:], p)
	return guts.CompressBuffer(&buf, len(p), &guts.IV, counter, 0)
}

// join returns the chaining value of the parent of two subtrees.
func join(left, right [8]uint32) [8]uint32 {
	return guts.ChainingValue(guts.ParentNode(left, right, &guts.IV, 0))
}

// parentCV returns the chaining value of a parent. If root is set, the parent
// covers the whole object and the result is its address.
func parentCV(p *[ParentSize]byte, root bool) [Size]byte {
	node := guts.Node{CV: guts.IV, Block: guts.BytesToWords(*p), BlockLen: guts.BlockSize, Flags: guts.FlagParent}
	if root {
		node.Flags |= guts.FlagRoot
	}
	return bytesOf(guts.ChainingValue(node))
}

// bytesOf returns a chaining value in its stored form.
func bytesOf(cv [8]uint32) (p [Size]byte) {
	for i, w := range cv {
		binary.LittleEndian.PutUint32(p[4*i:], w)
	}
	return p
}
