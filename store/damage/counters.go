package damage

import (
	"sync/atomic"

	"allium/store/meta"
)

// recoveryCounters count what recoveries and checks found and did, since the
// start of the process.
type recoveryCounters struct {
	found    map[meta.DamageKind]*atomic.Int64 // entries of the list of damage; never written after newRecoveryCounters
	repaired atomic.Int64                      // of them what peers gave back
	accepted atomic.Int64                      // of them what an operator accepted

	Torn        atomic.Int64 // last batches of a log that were not whole, as a crash leaves them
	Adopted     atomic.Int64 // files without a record that proved their name and were entered
	quarantined atomic.Int64 // files set aside in quarantine/
	Corrected   atomic.Int64 // places that could be told from what is left, and were written anew
}

func newRecoveryCounters() *recoveryCounters {
	c := &recoveryCounters{found: map[meta.DamageKind]*atomic.Int64{}}
	for _, kind := range []meta.DamageKind{meta.DamageLog, meta.DamageBody, meta.DamageFile, meta.DamageNote, meta.DamageIndex, meta.DamageFormat} {
		c.found[kind] = &atomic.Int64{}
	}
	return c
}

// noted counts a finding.
func (c *recoveryCounters) noted(kind meta.DamageKind) {
	if n := c.found[kind]; n != nil {
		n.Add(1)
	}
}

// ended counts a finding that is no longer open.
func (c *recoveryCounters) ended(as meta.DamageState) {
	switch as {
	case meta.DamageRepaired:
		c.repaired.Add(1)
	case meta.DamageAccepted:
		c.accepted.Add(1)
	default:
	}
}
