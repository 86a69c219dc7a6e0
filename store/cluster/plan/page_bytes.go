package plan

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"
)

// pageFormat begins the bytes of a page.
const pageFormat = 1

// AppendBinary appends the page as bytes, for [ReadPage].
func (pg *Page) AppendBinary(b []byte) []byte {
	b = append(b, pageFormat)
	b = binary.AppendUvarint(b, uint64(pg.unit))
	b = binary.AppendUvarint(b, uint64(len(pg.members)))
	for _, id := range pg.members {
		b = append(append(b, byte(len(id))), id...)
	}
	return append(b, pg.recs...)
}

// ReadPage returns a page of AppendBinary, all of which it checks. Objects for which keep returns false are left out.
func ReadPage(data []byte, p Params, now time.Time, keep func(Packed) bool) (*Page, error) {
	r := reader{data: data}
	format, unit, n := r.byte(), r.number(), r.number()
	switch {
	case r.failed || format != pageFormat || len(data) > maxPageSize:
		return nil, errPage
	case unit != uint64(p.step()):
		return nil, fmt.Errorf("%w: its times are of another audit period", errPage)
	case n > maxPageMembers:
		return nil, errPage
	}
	pg := NewPage(p)
	for range n {
		id := ID(r.take(int(r.byte())))
		if r.failed || slices.Contains(pg.members, id) {
			return nil, errPage
		}
		pg.members = append(pg.members, id)
	}
	for rest := r.data; len(rest) > 0; {
		end := 1 + int(rest[0])
		if end > len(rest) || end <= sizeAt {
			return nil, errPage
		}
		k := Packed{pg, rest[1:end]}
		if _, err := k.object(now); err != nil {
			return nil, err
		}
		if keep(k) {
			pg.recs = append(pg.recs, rest[:end]...)
			pg.n++
		}
		rest = rest[end:]
	}
	return pg, nil
}
