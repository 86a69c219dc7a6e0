package b3

import "lukechampine.com/blake3/guts"

// kernelSize is what the kernel takes at once: 16 BLAKE3 chunks.
const kernelSize = guts.MaxSIMD * guts.ChunkSize

// groupCV is the chaining value of p, group number index of its object, or the
// address of the object when p is all of it (root). It is synchronous, does not
// allocate and is the only caller of the kernel for data.
func groupCV(p []byte, index int64, root bool) [Size]byte {
	counter := uint64(index) * (GroupSize / guts.ChunkSize)
	var node guts.Node
	var cvs [GroupSize / kernelSize][8]uint32
	n := 0
	for len(p) > kernelSize {
		node = guts.CompressBuffer((*[kernelSize]byte)(p), kernelSize, &guts.IV, counter, 0)
		cvs[n] = guts.ChainingValue(node)
		n++
		counter += guts.MaxSIMD
		p = p[kernelSize:]
	}
	if len(p) == kernelSize {
		node = guts.CompressBuffer((*[kernelSize]byte)(p), kernelSize, &guts.IV, counter, 0)
	} else {
		node = compressTail(p, counter)
	}
	switch n {
	case 1:
		node = guts.ParentNode(cvs[0], guts.ChainingValue(node), &guts.IV, 0)
	case 2:
		node = guts.ParentNode(join(cvs[0], cvs[1]), guts.ChainingValue(node), &guts.IV, 0)
	case 3:
		node = guts.ParentNode(join(cvs[0], cvs[1]), join(cvs[2], guts.ChainingValue(node)), &guts.IV, 0)
	}
	return output(node, root)
}

// compressTail is the kernel over less than it takes at once. It reads whole
// vectors, so the bytes move to a buffer that is long enough.
func compressTail(p []byte, counter uint64) guts.Node {
	if len(p) <= guts.ChunkSize {
		return guts.CompressChunk(p, &guts.IV, counter, 0)
	}
	var buf [kernelSize]byte
	copy(buf[:], p)
	return guts.CompressBuffer(&buf, len(p), &guts.IV, counter, 0)
}

func join(left, right [8]uint32) [8]uint32 {
	return guts.ChainingValue(guts.ParentNode(left, right, &guts.IV, 0))
}

// parentCV is the chaining value of a parent, or the address of the object when
// the parent is over all of it (root).
func parentCV(p *[ParentSize]byte, root bool) [Size]byte {
	return output(guts.Node{
		CV:       guts.IV,
		Block:    guts.BytesToWords(*p),
		BlockLen: guts.BlockSize,
		Flags:    guts.FlagParent,
	}, root)
}

// output is the first 32 bytes of what node compresses to.
func output(node guts.Node, root bool) [Size]byte {
	if root {
		node.Flags |= guts.FlagRoot
	}
	out := guts.WordsToBytes(guts.CompressNode(node))
	return [Size]byte(out[:])
}
