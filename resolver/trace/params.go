package trace

import "time"

// MaxEntries is the most lookups that a ring holds (SPEC §6).
const MaxEntries = failedEntries + ordinaryEntries + hitEntries + runningEntries

// The bounds of the parts of a ring. When a part is full, its oldest record is dropped. The
// entries add up to 4,096 and the bytes to 16 MiB (SPEC §6).
const (
	failedEntries   = 1024
	failedBytes     = 6 << 20
	ordinaryEntries = 1024
	ordinaryBytes   = 5 << 20

	// A hit has a fixed size. The bytes allow for a name of MaxName bytes in each.
	hitEntries = hitShards * hitsOfShard
	hitBytes   = 1 << 20

	// A lookup that begins while so many run has an ID but no record. When the bytes are used up,
	// lookups leave out details.
	runningEntries = 1024
	runningBytes   = 4 << 20
)

// The hits are spread over shards, so that requests rarely wait for each other's lock.
const (
	hitShards   = 8
	hitsOfShard = 128
)

// The bounds of one lookup. Events beyond them are left out and counted.
const (
	maxBytes    = 64 << 10
	maxSteps    = 256
	maxPeers    = 64
	maxSearches = 8
	maxProbes   = 64 // of one search
	maxFailures = 64 // objects of a directory

	// A provider's first requests and its latest are kept, because most lookups fail at one end.
	firstSpans  = 4
	latestSpans = 12
)

const (
	maxText = 256 // bytes of an error's text
	// MaxName is the maximum size in bytes of the name in a key. Longer ones are cut.
	MaxName = 320
)

// Slow is the longest time that a lookup may take until its first verified bytes, or its end if there are none,
// before it counts as slow. A fetch may take SlowPerMiB more for each MiB that arrived.
const (
	Slow       = time.Second
	SlowPerMiB = time.Second
)
