package b3

import (
	"slices"

	"github.com/zeebo/blake3"
	"lukechampine.com/blake3/guts"

	"allium/protocols/status"
)

const (
	// ChunkSize is the length of a BLAKE3 chunk in bytes.
	ChunkSize = guts.ChunkSize

	maxChunkDepth = maxDepth + 6 // parents above a chunk of an object of MaxSize
)

// Chunks returns the number of chunks of an object of size bytes. The empty object has one chunk,
// which is empty.
func Chunks(size int64) int64 { return max(1, (size-1)/ChunkSize+1) }

// chunkLen returns the length in bytes of a chunk of an object of size bytes.
func chunkLen(size, chunk int64) int { return int(min(ChunkSize, size-chunk*ChunkSize)) }

// ChunkProof returns the proof of one chunk, 0 ≤ chunk < Chunks: the bytes of the chunk and the
// chaining values of its siblings, the deepest first. It reads one group and verifies it. The error
// is bad_range for another chunk, else that of the source, or ErrCorrupt.
func (r *Reader) ChunkProof(chunk int64) ([]byte, error) {
	if chunk < 0 || chunk >= Chunks(r.size) {
		return nil, status.Errorf(status.BadRange, "%s has %d chunks, and no chunk %d", r.root, Chunks(r.size), chunk)
	}
	if r.proved != nil && len(r.proved) <= GroupSize {
		return proofInGroup(r.proved, chunk, nil), nil
	}
	group := chunk / (GroupSize / ChunkSize)
	var ranges []Range // the whole object if it is one group: that may be empty
	if Groups(r.size) > 1 {
		ranges = []Range{{Start: group * GroupSize, End: group*GroupSize + 1}}
	}
	walk, err := r.Walk(ranges)
	if err != nil {
		return nil, err
	}
	var siblings [][Size]byte // the highest first
	buf := make([]byte, max(ParentSize, min(r.size, GroupSize)))
	for {
		item, err := r.Fill(walk, buf)
		if err != nil {
			return nil, err
		}
		if !item.IsParent() {
			return proofInGroup(item.Data(), chunk, siblings), nil
		}
		cvs := (*[ParentSize]byte)(item.Data())
		if lo, hi := NodeGroups(item.Node(), Groups(r.size)); group < split(lo, hi) {
			siblings = append(siblings, [Size]byte(cvs[Size:]))
		} else {
			siblings = append(siblings, [Size]byte(cvs[:Size]))
		}
	}
}

// proofInGroup returns the proof of a chunk in the group p. siblings are those above the group, the
// highest first.
func proofInGroup(p []byte, chunk int64, siblings [][Size]byte) []byte {
	first := chunk - chunk%(GroupSize/ChunkSize)
	lo, hi := first, first+Chunks(int64(len(p)))
	of := func(lo, hi int64) []byte { return p[(lo-first)*ChunkSize : min(int64(len(p)), (hi-first)*ChunkSize)] }
	for hi-lo > 1 {
		mid := split(lo, hi)
		if chunk < mid {
			siblings = append(siblings, portableGroupCV(of(mid, hi), uint64(mid)))
			hi = mid
		} else {
			siblings = append(siblings, portableGroupCV(of(lo, mid), uint64(lo)))
			lo = mid
		}
	}
	proof := make([]byte, 0, ChunkSize+Size*len(siblings))
	proof = append(proof, of(lo, hi)...)
	for _, cv := range slices.Backward(siblings) {
		proof = append(proof, cv[:]...)
	}
	return proof
}

// VerifyChunkProof returns an error that wraps ErrCorrupt unless proof proves that its maker has a
// chunk of the object root. The caller knows the size of the object: with a false size a proof of
// another chunk may be taken for that of this one.
func VerifyChunkProof(root Root, size, chunk int64, proof []byte) error {
	if !validSize(size) || chunk < 0 || chunk >= Chunks(size) || !provesChunk(root, size, chunk, proof) {
		return status.Errorf(status.Corrupt, "the proof of chunk %d of %s is wrong: %w", chunk, root, ErrCorrupt)
	}
	return nil
}

// provesChunk reports whether proof proves a chunk of the object root of size bytes, which has that chunk.
func provesChunk(root Root, size, chunk int64, proof []byte) bool {
	var right [maxChunkDepth]bool // whether the path turns right, the highest parent first
	depth := 0
	for lo, hi := int64(0), Chunks(size); hi-lo > 1; depth++ {
		mid := split(lo, hi)
		if right[depth] = chunk >= mid; right[depth] {
			lo = mid
		} else {
			hi = mid
		}
	}
	n := chunkLen(size, chunk)
	if len(proof) != n+Size*depth {
		return false
	}
	data, above := proof[:n], proof[n:]
	if depth == 0 {
		return blake3.Sum256(data) == root
	}
	cv := bytesOf(guts.ChainingValue(guts.CompressChunk(data, &guts.IV, uint64(chunk), 0)))
	for d := depth - 1; d >= 0; d-- {
		var both [ParentSize]byte
		left, other := cv[:], above[:Size]
		if right[d] {
			left, other = other, left
		}
		copy(both[:], left)
		copy(both[Size:], other)
		cv, above = parentCV(&both, d == 0), above[Size:]
	}
	return cv == root
}
