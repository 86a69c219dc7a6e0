package b3

import (
	"encoding/binary"

	"github.com/zeebo/blake3"
	"lukechampine.com/blake3/guts"
)

// kernelSize is what guts takes at once: 16 BLAKE3 chunks.
const kernelSize = guts.MaxSIMD * guts.ChunkSize

// groupCV is the chaining value of p, group number index of its object, or the
// address of the object when p is all of it (root). It is synchronous, does not
// allocate, and is the only caller of the hash kernels for data: zeebo's
// one-shot for a whole object, our assembly for a full group, guts for the group
// at the end and for machines that the assembly is not for.
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

// portableGroupCV is groupCV by guts, for a group of any length.
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

// compressTail is guts over at most what it takes at once. It reads whole
// vectors, so less than that moves to a buffer that is long enough.
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

// join is the chaining value of the parent of two chaining values.
func join(left, right [8]uint32) [8]uint32 {
	return guts.ChainingValue(guts.ParentNode(left, right, &guts.IV, 0))
}

// parentCV is the chaining value of a parent, or the address of the object when
// the parent is over all of it (root).
func parentCV(p *[ParentSize]byte, root bool) [Size]byte {
	node := guts.Node{CV: guts.IV, Block: guts.BytesToWords(*p), BlockLen: guts.BlockSize, Flags: guts.FlagParent}
	if root {
		node.Flags |= guts.FlagRoot
	}
	return bytesOf(guts.ChainingValue(node))
}

// bytesOf is a chaining value as it is stored.
func bytesOf(cv [8]uint32) (p [Size]byte) {
	for i, w := range cv {
		binary.LittleEndian.PutUint32(p[4*i:], w)
	}
	return p
}
