package tile

import (
	"context"
	"errors"
)

// ErrAway is the error of a [Source] that was asked with [LocalOnly] for bytes that this node does not
// have, or has damaged.
var ErrAway = errors.New("this node does not have the bytes")

type localKey struct{}

// LocalOnly returns a context in which a [Source] reads what this node has and asks nobody else. It
// returns [ErrAway] for the rest.
func LocalOnly(ctx context.Context) context.Context { return context.WithValue(ctx, localKey{}, true) }

// IsLocalOnly reports whether ctx is one of [LocalOnly].
func IsLocalOnly(ctx context.Context) bool { return ctx.Value(localKey{}) != nil }
