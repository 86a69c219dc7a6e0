// Package policy declares who decides what a request may do, and who records it. The packages below it implement both.
package policy

import (
	"context"

	"allium/gateway/policy/audit"
	"allium/protocols/capability"
)

// Capabilities verifies capability tokens. It is safe for concurrent use.
type Capabilities interface {
	// Verify returns what the token grants its bearer. It returns unauthenticated for a token
	// that this node did not issue, and forbidden if the token does not allow ask. It neither
	// waits nor stores the token.
	Verify(ctx context.Context, token string, ask capability.Request) (capability.Grant, error)
}

// Audit records mutations and refusals; see [audit.Log]. It is safe for concurrent use.
type Audit interface {
	// Mutation returns when the record is durable. If it returns an error, the mutation must
	// not begin.
	Mutation(ctx context.Context, e audit.Event) (seq uint64, err error)
	// Outcome records how the mutation with the number e.Of ended.
	Outcome(ctx context.Context, e audit.Event)
	// Refused records a refusal if its rate limit permits. It never waits.
	Refused(e audit.Event)
}
