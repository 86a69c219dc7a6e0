package segment

import (
	"context"

	"allium/store/segment/record"

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
	size, h, ok, head, err := record.ReadHeader(patient{f})
	if err != nil {
		return err
	}
	d := meta.Damage{Kind: meta.DamageLog, State: meta.DamageOpen, File: s.Name(num), Length: record.HeaderSize, Reason: "the header of a segment is damaged"}
	if !ok {
		if h, ok = record.MendHeader(head); !ok {
			h, ok = record.HeaderFromRecord(patient{f})
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
	sc := record.NewReader(patient{f}, h, h.Size(), h.Batch, end)
	for n := 0; ; n++ {
		_, body, _, err := sc.Next()
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
	for _, x := range sc.Holes {
		d.State, d.Offset, d.Length, d.Reason = meta.DamageMended, x.Off, x.Length, "a record cannot be read here; what the index needs of it is copied"
		s.Lost(num, d)
	}
	if known := s.use.get(num).end; sc.End < known {
		d.State, d.Offset, d.Length, d.Reason = meta.DamageMended, sc.End, known-sc.End, "the segment ends before it should; what the index needs of it is copied"
		s.Lost(num, d)
	}
	return nil
}
