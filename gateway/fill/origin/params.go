package origin

import "time"

// Params are the fixed limits of a Client. Tests set other values.
type Params struct {
	FirstByte time.Duration // from the beginning of Get to the first byte of the body, over all tries
	Connect   time.Duration // to look a host up and connect; a longer one is tried again
	Idle      time.Duration // the longest pause in a body
	MinRate   int64         // the lowest average rate of a body, in bytes per second

	Tries      int           // of one request
	Backoff    time.Duration // the pause before the second try; doubled for each further one
	MaxBackoff time.Duration // the longest such pause, without its jitter of at most Backoff

	BreakerWindow   time.Duration // the time over which failures count
	BreakerCooldown time.Duration // the time for which an open breaker lets nothing through
	BreakerMinCalls uint32        // fewer requests in the window never open the breaker
	BreakerProbes   uint32        // requests let through at once after the cooldown
}

// DefaultParams returns the limits of SPEC §2 and §9.
func DefaultParams() Params {
	return Params{
		FirstByte: 5 * time.Second, Connect: 2 * time.Second, Idle: 5 * time.Second, MinRate: 8 << 10,
		Tries: 3, Backoff: 50 * time.Millisecond, MaxBackoff: 800 * time.Millisecond,
		BreakerWindow: 10 * time.Second, BreakerCooldown: 5 * time.Second, BreakerMinCalls: 5, BreakerProbes: 2,
	}
}

const (
	maxRedirects   = 2        // of one try
	maxHeaderBytes = 64 << 10 // of the header of an answer
	maxPath        = 1024     // bytes of the path of a request, unescaped
	maxTag         = 256      // bytes of an entity tag; a longer one counts as none
	maxLocation    = 4 << 10  // bytes of the target of a redirect

	maxLies    = 1024             // paths, and mirrors, whose lies a Client remembers
	minPenalty = 10 * time.Second // for a lie; doubled for each further one
	maxPenalty = 10 * time.Minute

	idleConns     = 8                // connections that are kept for later requests
	idleTimeout   = 30 * time.Second // after which such a connection is closed
	breakerBucket = 10               // parts of BreakerWindow that are dropped one by one
	breakerErrors = 0.5              // share of failures above which the breaker opens (SPEC §2)
	failedPaths   = 256              // failed paths that the breaker remembers; more of them open it
)
