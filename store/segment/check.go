package segment

import (
	"context"

	"allium/store/meta"
)

// Check reads one segment up to where it ended when the check began.
func (s *Log) Check(ctx context.Context, num uint64) error {
	if !s.use.has(num) {
		return nil
	}
	end := s.use.get(num).end
	if at := s.use.where(); at.Seg == num {
		end = at.Off
	}
	f, err := s.fs.Open(s.path(num))
	if err != nil {
		return err
	}
	defer f.Close()
	size, h, ok, head, err := readHeader(patient{f})
	if err != nil {
		return err
	}
	d := meta.Damage{Kind: meta.DamageLog, State: meta.DamageOpen, File: s.Name(num), Length: headerSize, Reason: "the header of a segment is damaged"}
	if !ok {
		if h, ok = mendHeader(head); !ok {
			h, ok = headerFromRecord(patient{f})
		}
		if ok {
			d.State = meta.DamageMended
		}
		s.Lost(num, d)
		if !ok {
			return nil
		}
	}
	if end == 0 || end > size {
		end = size
	}
	sc := newScanner(patient{f}, h, h.size(), h.batch, end)
	for n := 0; ; n++ {
		_, body, _, err := sc.next()
		if err != nil {
			return err
		}
		if body == nil {
			break
		}
		if n%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if !s.use.has(num) {
		return nil // it was retired, and its file may be used again
	}
	for _, x := range sc.holes {
		d.State, d.Offset, d.Length, d.Reason = meta.DamageMended, x.off, x.length, "a record cannot be read here; what the index needs of it is copied"
		s.Lost(num, d)
	}
	if known := s.use.get(num).end; sc.end < known {
		d.State, d.Offset, d.Length, d.Reason = meta.DamageMended, sc.end, known-sc.end, "the segment ends before it should; what the index needs of it is copied"
		s.Lost(num, d)
	}
	return nil
}
