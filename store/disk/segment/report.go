package segment

import (
	"slices"

	"allium/store/disk/segment/codec"

	"allium/store/disk/tables"
	"allium/store/meta"
)

// reportDamage reports what is damaged in the segments that were read, other than the torn
// end of the last batch, and returns where the log ends.
func (r *recovery) reportDamage() tables.Position {
	for i := range r.scanned {
		r.scanned[i].minEnd = r.minEnd(i)
	}
	end := r.watermark
	for i, f := range r.scanned {
		sc := f.reader
		last := !slices.ContainsFunc(r.scanned[i+1:], func(g scannedSegment) bool { return g.reader.Records > 0 })
		for _, h := range sc.Holes {
			d := meta.Damage{
				Kind: meta.DamageLog, State: meta.DamageOpen, File: r.s.Name(f.num),
				Offset: h.Off, Length: h.Length, Left: h.Length, Reason: "no record can be read here",
			}
			inLastBatch := last && r.afterWatermark(tables.Position{Seg: f.num, Off: h.Off}) &&
				(f.header.OldFormat || h.Off >= sc.BatchStart) && h.Off >= f.minEnd
			switch {
			case h.Mended:
				d.State, d.Reason = meta.DamageMended, "one byte of a record's header was wrong; it was repaired"
			case inLastBatch:
				r.noteTorn(f.num, h.Off, h.Length)
				continue
			}
			r.s.damage.Add(d)
		}
		missing := func(end int64, reason string) meta.Damage {
			return meta.Damage{
				Kind: meta.DamageLog, State: meta.DamageOpen, File: r.s.Name(f.num),
				Offset: sc.End, Length: end - sc.End, Left: end - sc.End, Reason: reason,
			}
		}
		switch {
		case sc.End < f.minEnd:
			r.s.ReportLoss(f.num, missing(f.minEnd, "the segment ends before it should"))
		case sc.Torn() && last:
			r.noteTorn(f.num, sc.End, max(0, sc.BatchEnd-sc.End))
		case sc.Torn() && sc.End < sc.BatchEnd:
			r.s.damage.Add(missing(sc.BatchEnd, "the last batch of a segment is incomplete, and others follow"))
		}
		r.ends[f.num] = max(sc.End, f.minEnd)
		end = tables.Position{Seg: f.num, Off: sc.End}
	}
	return end
}

// inTornBatch reports whether the damaged body at that position is in the last batch of the
// log, behind the watermark. As far as the store can tell, that batch was not acknowledged.
func (r *recovery) inTornBatch(at tables.Position) bool {
	for _, f := range slices.Backward(r.scanned) {
		if f.reader.Records == 0 {
			continue
		}
		inBatch := f.num == at.Seg && at.Off >= f.reader.BatchStart && at.Off >= f.minEnd
		if !inBatch || f.header.OldFormat || !r.afterWatermark(at) {
			return false
		}
		r.noteTorn(at.Seg, at.Off, 0)
		return true
	}
	return false
}

// afterWatermark reports whether a position is behind what the index knew when the store
// opened.
func (r *recovery) afterWatermark(at tables.Position) bool {
	return r.indexIsNew || at.Seg > r.watermark.Seg || at.Seg == r.watermark.Seg && at.Off >= r.watermark.Off
}

// minEnd returns the lowest offset at which the ith scanned segment can end: the highest
// end that the watermark, FileTail, the list of segments, and the headers of later segments
// give.
func (r *recovery) minEnd(i int) (end int64) {
	f := r.scanned[i]
	if f.num == r.watermark.Seg && !r.indexIsNew {
		end = r.watermark.Off
	}
	if f.num == r.tailEnd.Seg {
		end = max(end, r.tailEnd.Off)
	}
	end = max(end, r.ends[f.num])
	for _, g := range r.scanned[i+1:] {
		if g.header.Before.Seg == f.num {
			end = max(end, g.header.Before.Off)
		}
	}
	return end
}

// noteTorn counts and logs a torn batch, which an ordinary crash leaves.
func (r *recovery) noteTorn(num uint64, off, length int64) {
	r.s.damage.Count.Torn.Add(1)
	r.s.logger.Warn("the last batch of the log is incomplete, as after a crash; its readable records are kept",
		"segment", codec.FileName(num), "offset", off, "bytes", length)
}
