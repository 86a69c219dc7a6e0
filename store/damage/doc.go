// Package damage keeps what recoveries and checks find that is not what was
// written: the list of findings, which outlives restarts, and quarantine/, where
// files go that nothing accounts for.
package damage
