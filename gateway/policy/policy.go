// Package policy declares who decides what a request may do, what content is denied, and who records it. The packages
// below it implement all three.
package policy

import (
	"context"

	"allium/gateway/policy/audit"
	"allium/protocols/b3"
	"allium/protocols/capability"
	"allium/protocols/name"
)

// Capabilities verifies capability tokens. It is safe for concurrent use.
type Capabilities interface {
	// Verify returns what the token grants its bearer. It returns unauthenticated for a token
	// that this node did not issue, and forbidden if the token does not allow ask. It neither
	// waits nor stores the token.
	Verify(ctx context.Context, token string, ask capability.Request) (capability.Grant, error)
}

// Filter tells what the operator does not let this node serve, fetch, store, resolve or publish. Its methods
// return denied for that and nil otherwise. They neither wait nor do I/O. A part of the node asks a Filter of its
// own, which counts the denials of that part. It asks where bytes or names enter or leave.
type Filter interface {
	// Object checks an object.
	Object(root b3.Root) error
	// Path checks root, the entry at the path and every directory between them, if they are denied by their paths.
	Path(root b3.Root, path string) error
	// Name checks a name and its zone.
	Name(n name.Name) error
}

// AllowAll is a Filter that denies nothing.
type AllowAll struct{}

// Object implements Filter.
func (AllowAll) Object(b3.Root) error { return nil }

// Path implements Filter.
func (AllowAll) Path(b3.Root, string) error { return nil }

// Name implements Filter.
func (AllowAll) Name(name.Name) error { return nil }

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
