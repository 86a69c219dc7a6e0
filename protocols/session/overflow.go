package session

import "fmt"

// Overflow says which frame makes room in an egress queue that is full.
type Overflow string

// The policies of a full egress queue.
const (
	Reject     Overflow = "reject"      // none: calls wait for room
	DropOldest Overflow = "drop_oldest" // the oldest that is not being written
)

// Validate returns an error if o is not one of the policies.
func (o Overflow) Validate() error {
	if o != Reject && o != DropOldest {
		return fmt.Errorf("%q is not a policy: use %s or %s", string(o), Reject, DropOldest)
	}
	return nil
}
