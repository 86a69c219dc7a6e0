package seeds

import "time"

// MaxLife is the longest validity of a manifest, from the time at which it is read.
const MaxLife = 365 * 24 * time.Hour

// Bounds of a manifest (SPEC §5).
const (
	maxSeeds     = 256       // seeds of a manifest; addresses of the configuration
	maxSeedAddrs = 16        // addresses of one seed
	maxEnvelope  = 64 << 10  // bytes of a signed manifest
	maxText      = 96 << 10  // bytes of the text form, line ends included
	maxPeerID    = 64        // bytes
	maxAddr      = 256       // bytes of one address; far above any in use
	maxAuthority = 16        // peers that may sign
	clockSkew    = time.Hour // how far the authority's clock may be ahead
)

// tiers are the intervals between rounds while seeds are missing (SPEC §5), ± 20 %.
var tiers = [...]time.Duration{time.Second, 5 * time.Second, 15 * time.Second, time.Minute, 5 * time.Minute}

const (
	dialTimeout  = 5 * time.Second
	dialSpace    = 200 * time.Millisecond // between the starts of two dials, ± 20 %
	dialParallel = 4
	stable       = time.Minute // after a connection this long, a loss starts at the first tier again

	askTimeout = 3 * time.Second
	askEvery   = 10 * time.Minute // shortest interval between two requests to one seed
	maxGiven   = 20               // peers used of one response, as many as FIND_NODE returns

	maxKnown      = 64 // remembered peers
	maxKnownAddrs = 8  // addresses of one of them
	maxFallback   = 8  // remembered peers dialed in one round
	knownLife     = 7 * 24 * time.Hour
	saveEvery     = 10 * time.Minute // ± 20 %

	maxStored    = 256 << 10       // bytes of one value in the datastore
	storeTimeout = 2 * time.Second // for reading everything, and for writing everything
)
