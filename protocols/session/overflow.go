package session

import "fmt"

// Overflow is the policy for a full egress queue.
type Overflow string

// The policies for a full egress queue.
const (
	Reject     Overflow = "reject"      // drop nothing: calls wait
	DropOldest Overflow = "drop_oldest" // drop the oldest frame that is not being written
)

// Validate returns an error if o is not one of the policies.
func (o Overflow) Validate() error {
	if o != Reject && o != DropOldest {
		return fmt.Errorf("%q is not a policy: use %s or %s", string(o), Reject, DropOldest)
	}
	return nil
}
