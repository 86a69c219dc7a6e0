package dht

import (
	"time"

	"allium/protocols/dht/messages"
)

// duplicateSlack is the longest time by which the sequence numbers of an earlier run may be ahead
// of the clock: in a burst of new records each number is one above the last.
const duplicateSlack = 5 * time.Minute

// checkDuplicate calls Deps.DuplicateIdentity for a record of this identity whose sequence
// number neither this run nor an earlier one has used.
func (s *Service) checkDuplicate(rec messages.Sealed) {
	if rec.Provider != s.self || s.deps.DuplicateIdentity == nil {
		return
	}
	if rec.Seq > s.seq.Load() && rec.Seq > uint64(s.started.Add(duplicateSlack).UnixMilli()) {
		s.deps.DuplicateIdentity(time.UnixMilli(int64(rec.Seq)), rec.Addrs.Addrs)
	}
}
