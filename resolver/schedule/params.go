package schedule

import (
	"math"
	"time"

	"allium/protocols/b3"
)

// The bounds of a transfer.
const (
	// ReadAhead is how many groups a reader may be ahead of: what lies further on
	// is asked for when it has come nearer, so that a slow reader of a large object
	// pulls no more than it reads.
	ReadAhead = 1024
	// LeastAhead is the smallest window of a reader, in groups.
	LeastAhead = 8

	usualRequests  = 2 // in flight to one provider: one, and the next when it ends soon
	urgentRequests = 4 // likewise, when a reader waits

	moreFrom      = 2 << 20 // bytes left that are worth another provider
	mostMissing   = 256     // runs that a provider does not have, in a row and in all; then it is not asked again
	doubledFree   = 4 << 20 // bytes that may be asked for twice, and
	doubledPart   = 16      // one in so many of those that came
	worthStealing = 50 * time.Millisecond
	lookedAt      = 4096 // groups that Stored is asked about at once
)

// The size of a request, in groups: what a provider delivers in requestTime,
// within bounds.
const (
	requestTime  = 250 * time.Millisecond
	minRequest   = 4
	firstRequest = (1 << 20) / b3.GroupSize // of a peer whose pace is unknown
	maxRequest   = (64 << 20) / b3.GroupSize
)

// A request is late when nothing came of it for unmeasured, or, of a peer whose
// pace is known, lateAfter past the time that something should have come.
const (
	unmeasured = 250 * time.Millisecond
	lateAfter  = 30 * time.Millisecond
)

// measurable is how many groups tell the pace of a request under way.
const measurable = 4

// never is a time that does not come.
const never = time.Duration(math.MaxInt64)
