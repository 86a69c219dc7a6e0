package tables

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"allium/protocols/b3"
	"allium/store/meta"
)

// The log is a set of segments. Compaction removes some, so a segment that does not exist is
// missing only if it is in the set. Each segment begins with the set at that time, a record
// of kind 6 says that one left, and the index has the set as of its watermark.

// EncodeSegments encodes a set in ascending order. For each segment it writes the distance
// from the previous number, and where its last record ends, 0 when unknown. It leaves out
// the oldest segments when the result exceeds the body of a record.
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

// DecodeSegments reverses EncodeSegments.
func DecodeSegments(p []byte) (ends map[uint64]int64, err error) {
	ends = map[uint64]int64{}
	rest, num := p, uint64(0)
	for len(rest) > 0 {
		var by, end uint64
		ok := meta.Uvarint(&rest, &by) && meta.Uvarint(&rest, &end)
		if !ok || by == 0 || num+by < num || end > meta.MaxSegmentBytes {
			return nil, fmt.Errorf("the list of segments %w: % x", ErrMalformed, meta.Excerpt(p))
		}
		num += by
		ends[num] = int64(end)
	}
	return ends, nil
}

// encodeWatermark encodes up to where the index has the log, and the number of the last
// batch.
func encodeWatermark(p Position, batch uint64) []byte {
	b := binary.LittleEndian.AppendUint64(make([]byte, 0, 24), p.Seg)
	b = binary.LittleEndian.AppendUint64(b, uint64(p.Off))
	return binary.LittleEndian.AppendUint64(b, batch)
}

// DecodeWatermark reverses encodeWatermark. It accepts a watermark of format 1 or 2 too,
// which has no batch.
func DecodeWatermark(b []byte) (p Position, batch uint64, err error) {
	if len(b) != 16 && len(b) != 24 || binary.LittleEndian.Uint64(b[8:]) > meta.MaxSegmentBytes {
		return Position{}, 0, fmt.Errorf("the watermark %w: % x", ErrMalformed, meta.Excerpt(b))
	}
	if len(b) == 24 {
		batch = binary.LittleEndian.Uint64(b[16:])
	}
	return Position{Seg: binary.LittleEndian.Uint64(b), Off: int64(binary.LittleEndian.Uint64(b[8:]))}, batch, nil
}

// Watermark returns up to where the index has the log, and the number of the last batch
// there. Both are zero when the index is new.
func (x *Index) Watermark() (end Position, batch uint64, err error) {
	v, ok, err := Cell{x.database, keyWatermark}.Get()
	if !ok {
		return Position{}, 0, err
	}
	return DecodeWatermark(v)
}

// Segments returns the segments of the log and their ends. ok is false when the index has
// no list, as before format 3.
func (x *Index) Segments() (ends map[uint64]int64, ok bool, err error) {
	v, ok, err := Cell{x.database, keySegments}.Get()
	if !ok {
		return nil, false, err
	}
	ends, err = DecodeSegments(v)
	return ends, err == nil, err
}
