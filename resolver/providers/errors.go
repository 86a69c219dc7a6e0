package providers

import (
	"errors"

	"allium/internal/guard"
	"allium/protocols/status"
)

// ErrDraining is the error of work that was canceled because the resolver's Run
// ended.
var ErrDraining = status.Errorf(status.Draining, "the node is stopping; ask another")

// finalError is the error type of [Final].
type finalError struct{ err error }

func (e *finalError) Error() string { return e.err.Error() }
func (e *finalError) Unwrap() error { return e.err }

// Final marks err as an error that no other provider can mend: an error of this
// node's own store, or verified content that is malformed. Final(nil) is nil.
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

// Guard calls f and turns a panic into an error, so that a bug in one fetch does
// not end the node. The log names the lookup that f is a part of, "" for none.
func (p *Pool) Guard(lookupID string, f func() error) error {
	g := guard.Guard{Log: p.log, Err: errBug}
	return g.Run("a fetch panicked", f, func() []any { return []any{"lookup_id", lookupID} })
}

var errBug = Final(status.Errorf(status.Internal, "a bug ended the fetch; please report it with the log of this node"))

// WorthRetrying reports whether a peer that failed with err may succeed
// soon. progressed says that the request had delivered verified bytes.
func WorthRetrying(err error, progressed bool) bool {
	switch status.Of(err) {
	case status.BreakerOpen:
		return false
	case status.Timeout:
		return progressed // a peer that sent nothing has cost enough time
	}
	return MayReturn(err)
}

// MayReturn reports whether a peer that failed with err may succeed within a minute: it was
// unreachable, silent or busy, and neither lied nor lacks the object.
func MayReturn(err error) bool { return mayReturn(status.Of(err), err) }

// mayReturn is MayReturn for an err whose outcome is taken for o.
func mayReturn(o status.Outcome, err error) bool {
	if o == status.Corrupt || status.IsLasting(err) {
		return false
	}
	switch o.Retry() {
	case status.RetryYes, status.RetryAfter, status.RetryElsewhere, status.RetryMaybe:
		return true
	}
	return false
}
