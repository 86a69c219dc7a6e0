package seeds

import "time"

// MaxLife is the longest life of a manifest, from when it is read.
const MaxLife = 365 * 24 * time.Hour

// Bounds of a manifest (SPEC §5).
const (
	maxSeeds     = 256       // of a manifest, and of the configuration
	maxSeedAddrs = 16        // of one seed
	maxEnvelope  = 64 << 10  // bytes
	maxText      = 96 << 10  // bytes of the text form, line ends and all
	maxPeerID    = 64        // bytes
	maxAddr      = 256       // bytes of one address: a DNS name may have 255, but none is so long
	maxAuthority = 16        // peers that may sign
	clockSkew    = time.Hour // by which the authority's clock may be ahead
)

// tiers are the waits between rounds while seeds are missing (SPEC §5), ± 20 %.
var tiers = [...]time.Duration{time.Second, 5 * time.Second, 15 * time.Second, time.Minute, 5 * time.Minute}

const (
	dialTimeout  = 5 * time.Second
	dialSpace    = 200 * time.Millisecond // between the starts of two dials, ± 20 %
	dialParallel = 4
	stable       = time.Minute // connected for so long, a loss starts at the first tier again

	askTimeout = 3 * time.Second
	askEvery   = 10 * time.Minute // at most, for one seed
	maxGiven   = 20               // peers used of one answer, as many as FIND_NODE gives

	maxKnown      = 64 // peers remembered
	maxKnownAddrs = 8  // of one of them
	maxFallback   = 8  // of them dialled in one round
	knownLife     = 7 * 24 * time.Hour
	saveEvery     = 10 * time.Minute // ± 20 %

	maxStored    = 256 << 10       // bytes of one value in the datastore
	storeTimeout = 2 * time.Second // for reading all, and for writing all
)
