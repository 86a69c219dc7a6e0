package record

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"allium/protocols/b3"
	"allium/store/index"
	"allium/store/meta"
)

// Prove looks whether a sealed segment of size bytes may replace its parts
// in the bucket: it begins with what was shipped, it is as long as the log says
// (end, 0 where it does not), and each record in it parses and proves what it
// says. wrong says what is wrong with it, nil for nothing. err is of a read, or
// ctx's.
func Prove(ctx context.Context, f io.ReaderAt, size, end int64, was index.Shipped) (wrong *meta.Damage, err error) {
	if size < max(end, was.End) {
		return &meta.Damage{Offset: size, Length: max(end, was.End) - size, Reason: fmt.Sprintf("it has %d bytes, and had %d", size, max(end, was.End))}, nil
	}
	_, h, ok, _, err := ReadHeader(f)
	if err != nil || !ok {
		return &meta.Damage{Length: HeaderSize, Reason: "its header is damaged"}, err
	}
	sc := NewReader(f, h, h.Size(), h.Batch, size)
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
		if !rec.proves(body) {
			return &meta.Damage{Kind: meta.DamageBody, Offset: off, Length: int64(len(body)), Roots: []b3.Root{rec.Root}, Reason: "a record is not what was written"}, nil
		}
	}
	switch {
	case len(sc.Holes) > 0:
		return &meta.Damage{Offset: sc.Holes[0].Off, Length: sc.Holes[0].Length, Reason: "no record can be read here"}, nil
	case end > 0 && sc.End != end:
		return &meta.Damage{Offset: sc.End, Length: max(end, sc.End) - min(end, sc.End), Reason: fmt.Sprintf("its records end at byte %d, and ended at %d", sc.End, end)}, nil
	case !was.Summed:
		return nil, nil
	}
	sum, err := Sum(ctx, f, 0, was.End, 0)
	if err == nil && sum != was.Sum {
		wrong = &meta.Damage{Length: was.End, Reason: "it does not begin with what was shipped"}
	}
	return wrong, err
}

// proves reports whether the body of a record is what was written.
func (r Record) proves(body []byte) bool {
	switch r.Kind {
	case KindObject:
		return b3.Sum(body) == r.Root
	case KindTombstone:
		return true
	default:
		return meta.Checksummed(body)
	}
}

// proveRead is how much is read at a time.
const proveRead = 4 << 20

// Sum goes on with the CRC-32C sum over bytes [start, end) of f.
func Sum(ctx context.Context, f io.ReaderAt, start, end int64, sum uint32) (uint32, error) {
	buf := make([]byte, min(proveRead, end-start))
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
