package codec

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"allium/protocols/b3"
	"allium/store/disk/tables"
	"allium/store/meta"
)

// CheckSealed checks whether a sealed segment of size bytes may replace its uploaded parts
// in the bucket. The segment must begin with the bytes that were uploaded, its records must
// end at end (0 when unknown), and each record must be intact. damage describes what is
// wrong and is nil when nothing is. err is a read error or ctx's error.
func CheckSealed(ctx context.Context, f io.ReaderAt, size, end int64, uploaded tables.Shipped) (
	damage *meta.Damage, err error,
) {
	if least := max(end, uploaded.End); size < least {
		return &meta.Damage{
			Offset: size, Length: least - size,
			Reason: fmt.Sprintf("the segment has %d bytes instead of %d", size, least),
		}, nil
	}
	_, h, ok, _, err := ReadSegmentHeader(f)
	if err != nil || !ok {
		return &meta.Damage{Length: SegmentHeaderSize, Reason: "the header of the segment is damaged"}, err
	}
	sc := NewReader(f, h, h.Size(), h.LastBatch, size)
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		rec, body, off, err := sc.Next()
		if err != nil {
			return nil, err
		}
		if body == nil {
			break
		}
		if !rec.bodyIntact(body) {
			return &meta.Damage{
				Kind: meta.DamageBody, Offset: off, Length: int64(len(body)), Roots: []b3.Root{rec.Root},
				Reason: "the body of a record does not match its checksum or address",
			}, nil
		}
	}
	switch {
	case len(sc.Holes) > 0:
		return &meta.Damage{
			Offset: sc.Holes[0].Off, Length: sc.Holes[0].Length,
			Reason: "no record can be read here",
		}, nil
	case end > 0 && sc.End != end:
		return &meta.Damage{
			Offset: sc.End, Length: max(end, sc.End) - min(end, sc.End),
			Reason: fmt.Sprintf("the records end at byte %d instead of byte %d", sc.End, end),
		}, nil
	case !uploaded.HasCRC:
		return nil, nil
	}
	sum, err := Checksum(ctx, f, 0, uploaded.End, 0)
	if err == nil && sum != uploaded.CRC {
		damage = &meta.Damage{Length: uploaded.End, Reason: "the segment does not begin with the uploaded bytes"}
	}
	return damage, err
}

// bodyIntact reports whether body matches the record's address or its own CRC.
func (r Record) bodyIntact(body []byte) bool {
	switch r.Kind {
	case KindObject:
		return b3.Sum(body) == r.Root
	case KindTombstone:
		return true
	default:
		return meta.Checksummed(body)
	}
}

// checksumRead is the maximum number of bytes that Checksum reads at a time.
const checksumRead = 4 << 20

// Checksum continues the CRC-32C checksum sum with the bytes [start, end) of f.
func Checksum(ctx context.Context, f io.ReaderAt, start, end int64, sum uint32) (uint32, error) {
	buf := make([]byte, min(checksumRead, end-start))
	for at := start; at < end; {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		n, err := f.ReadAt(buf[:min(int64(len(buf)), end-at)], at)
		if n == 0 && err != nil && !errors.Is(err, io.EOF) {
			return 0, meta.ReadError(err)
		}
		if n == 0 {
			return 0, meta.Defect("short")
		}
		sum = crc32.Update(sum, meta.Castagnoli, buf[:n])
		at += int64(n)
	}
	return sum, nil
}
