package plan

import "time"

// The bounds of what a node keeps about its cluster.
const (
	// MaxMembers bounds the members of a cluster. Offers of more are refused, as a cluster of
	// this size needs placement by groups.
	MaxMembers = 1024
	// MaxSeen bounds the copies of one object that are remembered. The target's own holders
	// always fit: MaxCopies, and as many origins.
	MaxSeen = 96
	// MaxTargets bounds the nodes whose targets one object has.
	MaxTargets = 16
	// MaxBatch bounds the objects of one challenge, and those that are told in one request.
	MaxBatch = 256
	// MaxSent and MaxSentBytes bound the small objects that one job sends to a member.
	MaxSent      = 1024
	MaxSentBytes = 4 << 20
	// askFirst is the number of members that are asked for a missing copy before it is made again.
	askFirst = 16
	// forgetAfter is the time for which a member that is gone is listed.
	forgetAfter = 7 * 24 * time.Hour
	// massHold is the longest time in which only last copies are repaired after more than a third of
	// the members vanished together.
	massHold = time.Hour
	// awaitedPart is the part of a tick that a member has to answer again if somebody waits.
	awaitedPart = 60
	// maxDoubled bounds how often the wait after sends in vain to one member doubles.
	maxDoubled = 5
)

// Params are the times of durability. A testnet has shorter ones.
type Params struct {
	Tick        time.Duration // between two plans of an object
	AuditPeriod time.Duration // within which each holder of each object proves its copy
	Grace       time.Duration // a member that is silent for so long is gone
	// TrimWait is the time between the two proofs of a holder that drops its copy, and from the
	// removal of a target until copies go.
	TrimWait time.Duration
}

// DefaultParams returns the times of a node.
func DefaultParams() Params {
	return Params{
		Tick: time.Minute, AuditPeriod: 24 * time.Hour, Grace: 15 * time.Minute, TrimWait: 24 * time.Hour,
	}
}

// TestnetParams returns the times of a node in a testnet.
func TestnetParams() Params {
	return Params{
		Tick: time.Second, AuditPeriod: 10 * time.Second, Grace: 10 * time.Second, TrimWait: 10 * time.Second,
	}
}
