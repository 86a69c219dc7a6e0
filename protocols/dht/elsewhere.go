package dht

import "time"

// ownSlack is how far ahead of the clock the numbers of records of an earlier
// run can be: a burst of new records counts on from the time of its first.
const ownSlack = 5 * time.Minute

// sawOwn tells Deps.Elsewhere of a record of this identity with a number that
// neither this run nor an earlier one has given out.
func (s *Service) sawOwn(rec sealed) {
	if rec.Provider != s.self || s.deps.Elsewhere == nil {
		return
	}
	if rec.Seq > s.seq.Load() && rec.Seq > uint64(s.began.Add(ownSlack).UnixMilli()) {
		s.deps.Elsewhere(time.UnixMilli(int64(rec.Seq)), rec.addrs.Addrs)
	}
}
