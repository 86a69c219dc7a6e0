package index

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"allium/protocols/b3"
	"allium/store/meta"
)

// The log consists of a set of segments: compaction takes some away, so a number
// that is not there is missing only when it belongs to the set. Each segment
// begins with the set as it was then, a record of kind 6 says that one went, and
// the index has the set as of its watermark.

// EncodeSegments writes a set, ascending: for each the distance from the number
// before it, and where its last record ends, 0 where that is not known. What is
// beyond one body is left out, the oldest first.
func EncodeSegments(ends map[uint64]int64) []byte {
	nums := slices.Sorted(maps.Keys(ends))
	for {
		var p []byte
		last := uint64(0)
		for _, num := range nums {
			p = binary.AppendUvarint(p, num-last)
			p = binary.AppendUvarint(p, uint64(ends[num]))
			last = num
		}
		if len(p) <= b3.GroupSize-4 {
			return p
		}
		nums = nums[len(nums)/8+1:]
	}
}

// DecodeSegments is the inverse of encodeSegments.
func DecodeSegments(p []byte) (ends map[uint64]int64, err error) {
	ends = map[uint64]int64{}
	rest, num := p, uint64(0)
	for len(rest) > 0 {
		var by, end uint64
		if !meta.Uvarint(&rest, &by) || !meta.Uvarint(&rest, &end) || by == 0 || num+by < num || end > meta.MaxSegmentBytes {
			return nil, fmt.Errorf("the list of segments %w: % x", ErrMalformed, meta.Clip(p))
		}
		num += by
		ends[num] = int64(end)
	}
	return ends, nil
}

// encodeWatermark writes how far the log is in the index: its end there, and the
// number of the last batch.
func encodeWatermark(p Position, batch uint64) []byte {
	b := binary.LittleEndian.AppendUint64(make([]byte, 0, 24), p.Seg)
	b = binary.LittleEndian.AppendUint64(b, uint64(p.Off))
	return binary.LittleEndian.AppendUint64(b, batch)
}

// DecodeWatermark is the inverse of encodeWatermark. It takes those of format 1
// and 2 as well, which have no batch.
func DecodeWatermark(b []byte) (p Position, batch uint64, err error) {
	if len(b) != 16 && len(b) != 24 || binary.LittleEndian.Uint64(b[8:]) > meta.MaxSegmentBytes {
		return Position{}, 0, fmt.Errorf("the watermark %w: % x", ErrMalformed, meta.Clip(b))
	}
	if len(b) == 24 {
		batch = binary.LittleEndian.Uint64(b[16:])
	}
	return Position{Seg: binary.LittleEndian.Uint64(b), Off: int64(binary.LittleEndian.Uint64(b[8:]))}, batch, nil
}
