package segment

import (
	"slices"

	"allium/store/segment/record"

	"allium/store/index"
	"allium/store/meta"
)

// judge tells damage in the segments that were read from the torn rest of the
// last batch, and returns where the log ends.
func (r *recovery) judge() index.Position {
	for i := range r.found {
		r.found[i].want = r.expected(i)
	}
	end := r.mark
	for i, f := range r.found {
		sc := f.scan
		last := !slices.ContainsFunc(r.found[i+1:], func(g foundSegment) bool { return g.scan.Count > 0 })
		for _, h := range sc.Holes {
			d := meta.Damage{Kind: meta.DamageLog, State: meta.DamageOpen, File: r.s.Name(f.num), Offset: h.Off, Length: h.Length, Left: h.Length, Reason: "no record can be read here"}
			switch {
			case h.Mended:
				d.State, d.Reason = meta.DamageMended, "one byte of a record's header was wrong; it could be told"
			case last && r.behindMark(index.Position{Seg: f.num, Off: h.Off}) && (f.h.Old || h.Off >= sc.BatchAt) && h.Off >= f.want:
				r.torn(f.num, h.Off, h.Length)
				continue
			}
			r.s.damage.Add(d)
		}
		want := f.want
		switch {
		case sc.End < want:
			r.s.Lost(f.num, meta.Damage{Kind: meta.DamageLog, State: meta.DamageOpen, File: r.s.Name(f.num), Offset: sc.End, Length: want - sc.End, Left: want - sc.End, Reason: "the segment ends before it should"})
		case sc.Torn() && last:
			r.torn(f.num, sc.End, max(0, sc.BatchEnd-sc.End))
		case sc.Torn() && sc.End < sc.BatchEnd:
			r.s.damage.Add(meta.Damage{Kind: meta.DamageLog, State: meta.DamageOpen, File: r.s.Name(f.num), Offset: sc.End, Length: sc.BatchEnd - sc.End, Left: sc.BatchEnd - sc.End, Reason: "the last batch of a segment is not whole, and others follow it"})
		}
		r.set[f.num] = max(sc.End, want)
		end = index.Position{Seg: f.num, Off: sc.End}
	}
	return end
}

// inTornBatch reports whether a body is in the last batch of the log, behind the
// watermark: what is wrong there was not acknowledged, as far as anybody can tell.
func (r *recovery) inTornBatch(at index.Position) bool {
	for _, f := range slices.Backward(r.found) {
		if f.scan.Count == 0 {
			continue
		}
		if f.num != at.Seg || at.Off < f.scan.BatchAt || f.h.Old || !r.behindMark(at) || f.want > at.Off {
			return false
		}
		r.torn(at.Seg, at.Off, 0)
		return true
	}
	return false
}

// behindMark reports whether a place is behind what the index knew.
func (r *recovery) behindMark(at index.Position) bool {
	return r.anew || at.Seg > r.mark.Seg || at.Seg == r.mark.Seg && at.Off >= r.mark.Off
}

// expected is where the ith segment that was read ends at the least.
func (r *recovery) expected(i int) (end int64) {
	f := r.found[i]
	if f.num == r.mark.Seg && !r.anew {
		end = r.mark.Off
	}
	if f.num == r.tail.Seg {
		end = max(end, r.tail.Off)
	}
	end = max(end, r.set[f.num])
	for _, g := range r.found[i+1:] {
		if g.h.Before.Seg == f.num {
			end = max(end, g.h.Before.Off)
		}
	}
	return end
}

// torn notes what an ordinary crash left.
func (r *recovery) torn(num uint64, off, length int64) {
	r.s.damage.Count.Torn.Add(1)
	r.s.logger.Warn("the last batch of the log is not whole, as after a crash; what can be read of it is kept", "segment", record.FileName(num), "offset", off, "bytes", length)
}
