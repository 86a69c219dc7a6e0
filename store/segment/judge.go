package segment

import (
	"slices"

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
		last := !slices.ContainsFunc(r.found[i+1:], func(g foundSegment) bool { return g.scan.count > 0 })
		for _, h := range sc.holes {
			d := meta.Damage{Kind: meta.DamageLog, State: meta.DamageOpen, File: r.s.Name(f.num), Offset: h.off, Length: h.length, Left: h.length, Reason: "no record can be read here"}
			switch {
			case h.mended:
				d.State, d.Reason = meta.DamageMended, "one byte of a record's header was wrong; it could be told"
			case last && r.behindMark(index.Position{Seg: f.num, Off: h.off}) && (f.h.old || h.off >= sc.batchAt) && h.off >= f.want:
				r.torn(f.num, h.off, h.length)
				continue
			}
			r.s.damage.Add(d)
		}
		want := f.want
		switch {
		case sc.end < want:
			r.s.Lost(f.num, meta.Damage{Kind: meta.DamageLog, State: meta.DamageOpen, File: r.s.Name(f.num), Offset: sc.end, Length: want - sc.end, Left: want - sc.end, Reason: "the segment ends before it should"})
		case sc.torn() && last:
			r.torn(f.num, sc.end, max(0, sc.batchEnd-sc.end))
		case sc.torn() && sc.end < sc.batchEnd:
			r.s.damage.Add(meta.Damage{Kind: meta.DamageLog, State: meta.DamageOpen, File: r.s.Name(f.num), Offset: sc.end, Length: sc.batchEnd - sc.end, Left: sc.batchEnd - sc.end, Reason: "the last batch of a segment is not whole, and others follow it"})
		}
		r.set[f.num] = max(sc.end, want)
		end = index.Position{Seg: f.num, Off: sc.end}
	}
	return end
}

// inTornBatch reports whether a body is in the last batch of the log, behind the
// watermark: what is wrong there was not acknowledged, as far as anybody can tell.
func (r *recovery) inTornBatch(at index.Position) bool {
	for _, f := range slices.Backward(r.found) {
		if f.scan.count == 0 {
			continue
		}
		if f.num != at.Seg || at.Off < f.scan.batchAt || f.h.old || !r.behindMark(at) || f.want > at.Off {
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
		if g.h.before.Seg == f.num {
			end = max(end, g.h.before.Off)
		}
	}
	return end
}

// torn notes what an ordinary crash left.
func (r *recovery) torn(num uint64, off, length int64) {
	r.s.damage.Count.Torn.Add(1)
	r.s.logger.Warn("the last batch of the log is not whole, as after a crash; what can be read of it is kept", "segment", FileName(num), "offset", off, "bytes", length)
}
