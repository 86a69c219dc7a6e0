package schedule

import (
	"math"
	"time"

	"allium/protocols/b3"
)

// The bounds of a transfer.
const (
	// ReadAhead is the largest window of a reader, in groups. Groups beyond it are
	// requested when the reader has come nearer. A slow reader of a large object
	// therefore fetches no more than it reads.
	ReadAhead = 1024
	// LeastAhead is the smallest window of a reader, in groups.
	LeastAhead = 8

	usualRequests  = 2 // most in flight to one provider: one, and the next when that ends soon
	urgentRequests = 4 // most in flight to one provider while a reader waits

	minShare     = 2 << 20               // bytes left that are worth another provider
	maxMissing   = 16                    // a provider is lost when it lacks more runs in a row that it said to have
	maxParts     = 16                    // providers with a part that are known at a time
	pieceGroups  = 16                    // most groups between the places that chance draws
	hedgedFree   = 4 << 20               // bytes that may be hedged in any transfer
	hedgedPart   = 16                    // one of so many received bytes may be hedged as well
	minStealTime = 50 * time.Millisecond // a request that ends sooner is not split
	groupsAtOnce = 4096                  // most groups of one call of Stored.Missing
)

// The size of a request in groups is what a provider delivers in requestTime,
// within these bounds.
const (
	requestTime  = 250 * time.Millisecond
	minRequest   = 4
	firstRequest = (1 << 20) / b3.GroupSize // to a provider of unknown rate
	maxRequest   = (64 << 20) / b3.GroupSize
)

// A request is late when the provider's rate is unknown and no group has arrived
// for Config.HedgeAfter, or when the rate is known and the next group is lateAfter
// overdue.
const lateAfter = 30 * time.Millisecond

// DefaultHedgeAfter is Config.HedgeAfter when it is not set (SPEC §2).
const DefaultHedgeAfter = 150 * time.Millisecond

// settleTime is the time that requests that are nearly complete get to end when the
// object is whole.
const settleTime = 250 * time.Millisecond

// measurable is the number of groups of a running request that are enough to measure its rate, if they have not taken
// requestTime, which is enough as well.
const measurable = 4

// never is a time that does not come.
const never = time.Duration(math.MaxInt64)
