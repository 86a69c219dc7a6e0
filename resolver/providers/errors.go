package providers

import (
	"errors"
	"runtime/debug"

	"allium/protocols/status"
)

// ErrDraining is the cause of work that the end of the resolver's Run cancelled.
var ErrDraining = status.Errorf(status.Draining, "resolver: the node is stopping; ask another")

// finalError marks an error that no other source can mend: of this node's own
// store, or of content that is verified and makes no sense.
type finalError struct{ err error }

func (e *finalError) Error() string { return e.err.Error() }
func (e *finalError) Unwrap() error { return e.err }

// Final marks err, which may be nil, as one that no other provider can mend: of
// this node's own store, or of content that is verified and makes no sense.
func Final(err error) error {
	if err == nil {
		return nil
	}
	return &finalError{err}
}

// IsFinal reports whether err was marked by [Final].
func IsFinal(err error) bool {
	_, ok := errors.AsType[*finalError](err)
	return ok
}

// Guard turns a panic of f into an error: a bug in one fetch does not take the
// node down.
func (p *Pool) Guard(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			p.log.Error("a fetch panicked", "panic", v, "stack", string(debug.Stack()))
			err = Final(status.Errorf(status.Internal, "resolver: a bug ended the fetch; please report it with the log of this node: %v", v))
		}
	}()
	return f()
}

// WorthRetrying reports whether a peer that answered with that outcome may do
// better soon. moved says that something verified came before.
func WorthRetrying(o status.Outcome, moved bool) bool {
	switch o {
	case status.Corrupt, status.BreakerOpen:
		return false
	case status.Timeout:
		return moved // a peer that stood still has cost enough
	}
	switch o.Retry() {
	case status.RetryYes, status.RetryAfter, status.RetryElsewhere, status.RetryMaybe:
		return true
	}
	return false
}
