package tables

import (
	"encoding/binary"
	"fmt"

	"allium/store/meta"
)

// Shipped describes how much of a segment is in the bucket.
type Shipped struct {
	Whole  bool   // the segment is sealed and uploaded as one object
	End    int64  // bytes that are uploaded
	HasCRC bool   // CRC is known
	CRC    uint32 // CRC-32C of the uploaded bytes, when they are in parts
}

// Encode encodes the value of Index.Shipped.
func (s Shipped) Encode() []byte {
	b := []byte{0}
	if s.Whole {
		b[0] = 1
	}
	b = binary.AppendUvarint(b, uint64(s.End))
	if s.HasCRC {
		b = binary.LittleEndian.AppendUint32(b, s.CRC)
	}
	return b
}

func decodeShipped(p []byte) (s Shipped, err error) {
	var end uint64
	if len(p) > 0 && p[0] <= 1 {
		rest := p[1:]
		if meta.Uvarint(&rest, &end) && (len(rest) == 0 || len(rest) == 4) && end <= meta.MaxSegmentBytes {
			s = Shipped{Whole: p[0] == 1, End: int64(end)}
			if len(rest) == 4 { // earlier versions wrote no CRC
				s.HasCRC, s.CRC = true, binary.LittleEndian.Uint32(rest)
			}
			return s, nil
		}
	}
	return s, fmt.Errorf("the index entry of a shipped segment is malformed: % x", meta.Excerpt(p))
}

// AllShipped returns what is in the bucket of each segment, by its number.
func (x *Index) AllShipped() (map[uint64]Shipped, error) {
	all := map[uint64]Shipped{}
	err := x.scan([]byte{keyShipped}, []byte{keyShipped + 1}, func(k, v []byte) (bool, error) {
		if len(k) != 9 {
			return false, fmt.Errorf("the index key % x is malformed", meta.Excerpt(k))
		}
		s, err := decodeShipped(v)
		all[binary.BigEndian.Uint64(k[1:])] = s
		return true, err
	})
	return all, err
}

// Shipped returns the cell that says how much of a segment is in the bucket. It exists when
// any part of the segment is there.
func (x *Index) Shipped(num uint64) Cell {
	return Cell{x.database, binary.BigEndian.AppendUint64([]byte{keyShipped}, num)}
}
