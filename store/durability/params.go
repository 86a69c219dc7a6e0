package durability

import "time"

// The bounds of what a node keeps about its cluster.
const (
	// MaxMembers bounds the members of a cluster. Offers of more are refused, as a cluster of
	// this size needs placement by groups.
	MaxMembers = 1024
	// forgetAfter is how long a member that is gone is listed.
	forgetAfter = 7 * 24 * time.Hour
	// massHold is how long at most only last copies are repaired after more than a third of the
	// members vanished together.
	massHold = time.Hour
)

// Params are the times of durability. A testnet has shorter ones.
type Params struct {
	Grace time.Duration // a member that is silent for so long is gone
}

// DefaultParams returns the times of a node.
func DefaultParams() Params { return Params{Grace: 15 * time.Minute} }

// TestnetParams returns the times of a node in a testnet.
func TestnetParams() Params { return Params{Grace: 10 * time.Second} }
