package damage

import (
	"sync/atomic"

	"allium/store/meta"
)

// recoveryCounters count findings of recoveries and checks, and what became of them, since the
// process started.
type recoveryCounters struct {
	found    map[meta.DamageKind]*atomic.Int64 // findings added to the list; the map is fixed after newRecoveryCounters
	repaired atomic.Int64                      // findings whose objects peers returned
	accepted atomic.Int64                      // findings whose loss an operator accepted

	Torn        atomic.Int64 // incomplete last batches of a log, which a crash leaves
	Adopted     atomic.Int64 // files without a record whose bytes match their name and became objects
	quarantined atomic.Int64 // files moved to quarantine/
	Corrected   atomic.Int64 // damaged places that the store rewrote from other data
}

func newRecoveryCounters() *recoveryCounters {
	c := &recoveryCounters{found: map[meta.DamageKind]*atomic.Int64{}}
	for _, kind := range []meta.DamageKind{meta.DamageLog, meta.DamageBody, meta.DamageFile, meta.DamageNote,
		meta.DamageIndex, meta.DamageFormat} {
		c.found[kind] = &atomic.Int64{}
	}
	return c
}

// countFound counts a new finding.
func (c *recoveryCounters) countFound(kind meta.DamageKind) {
	if n := c.found[kind]; n != nil {
		n.Add(1)
	}
}

// countEnded counts a finding that is no longer open.
func (c *recoveryCounters) countEnded(as meta.DamageState) {
	switch as {
	case meta.DamageRepaired:
		c.repaired.Add(1)
	case meta.DamageAccepted:
		c.accepted.Add(1)
	default:
	}
}
