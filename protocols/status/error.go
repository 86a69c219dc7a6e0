package status

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Error is an error with an outcome. The message says what happened and what
// to do, in one sentence, without a trailing period.
type Error struct {
	Outcome  Outcome
	Message  string
	Detail   string // a more specific label, such as a reason of OAP1.md §3; may be empty
	Limit    *Limit // the limit that refused the request; nil if none did
	LookupID string // identifies the lookup in the log; empty without a lookup
	Err      error  // the cause; may be nil
	Lasting  bool   // it does not pass within a minute, even if such an outcome may
}

// Limit describes the limit that refused a request.
type Limit struct {
	Name       string        // as in the registry of limits, such as "gateway.inflight"
	Current    int64         // present use, in the limit's own unit
	Cap        int64         // most use, in the limit's own unit
	RetryAfter time.Duration // estimated wait, 100 ms – 30 s
}

// Errorf returns an *Error with the outcome and a formatted message. The operand of %w is the cause;
// a format with several %w keeps no cause.
func Errorf(o Outcome, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Outcome: o, Message: err.Error(), Err: errors.Unwrap(err)}
}

// BusyError returns an error for a request that limit l refused, such as busy, rate_limit or quota.
func BusyError(o Outcome, l Limit) *Error {
	return &Error{
		Outcome: o,
		Message: fmt.Sprintf("%s is at its limit (%d of %d); try again in %s", l.Name, l.Current, l.Cap,
			l.RetryAfter.Round(time.Millisecond)),
		Limit: &l,
	}
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause, nil if there is none.
func (e *Error) Unwrap() error { return e.Err }

// HasOutcome reports whether err, or a cause of it, says its outcome by a Status method.
func HasOutcome(err error) bool {
	var s interface{ Status() Outcome }
	return errors.As(err, &s)
}

// IsLasting reports whether err, or a cause of it, is a lasting *Error.
func IsLasting(err error) bool {
	for {
		e, ok := errors.AsType[*Error](err)
		if !ok || e.Lasting {
			return ok
		}
		err = e.Err
	}
}

// Status returns the outcome.
func (e *Error) Status() Outcome { return e.Outcome }

// Of returns the outcome of err. The first of these that applies decides:
//
//   - A nil err is ok.
//   - The first error in err's chain with a Status method gives the outcome.
//   - context.Canceled is canceled, and an error whose Timeout method returns true is timeout.
//   - [System] recognizes errors of the operating system that are about this machine.
//   - Any other error of the operating system is transport_down if it is about the network, and
//     else not_ready: the node cannot use its own files.
//   - Any other error is internal: a fault of the program.
func Of(err error) Outcome {
	if err == nil {
		return OK
	}
	if e, ok := err.(*Error); ok { //nolint:errorlint // errors.As below finds a wrapped one
		return e.Outcome // errors.As costs more, and refusals must be cheap
	}
	if e, ok := err.(*lookupError); ok { //nolint:errorlint // likewise
		return Of(e.err)
	}
	var s interface{ Status() Outcome }
	if errors.As(err, &s) {
		return s.Status()
	}
	switch {
	case errors.Is(err, context.Canceled):
		return Canceled
	case timedOut(err):
		return Timeout
	}
	if o, ok := System(err); ok {
		return o
	}
	return ofOS(err)
}

// timedOut reports whether err is a timeout: quic-go, yamux and net each have a type of their own.
func timedOut(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

// Report is the form in which an error leaves the process: the payload of an OAP error (OAP1.md §8),
// the extension members of an HTTP problem and the command line's --json output.
type Report struct {
	Reason       string `json:"reason"`
	Message      string `json:"message"`
	Detail       string `json:"detail,omitempty"`
	Limit        string `json:"limit,omitempty"`
	Current      int64  `json:"current,omitempty"`
	Cap          int64  `json:"cap,omitempty"`
	RetryAfterMS int64  `json:"retry_after_ms,omitempty"`
	LookupID     string `json:"lookup_id,omitempty"`
}

// ReportOf returns the report of err. The message is err.Error(), so it includes the text of every
// wrapping error. The other members come from the first *Error in err's chain. If that names no
// lookup, the one of [WithLookup] counts.
func ReportOf(err error) Report {
	r := Report{Reason: Of(err).String()}
	if err != nil {
		r.Message = err.Error()
	}
	var e *Error
	if errors.As(err, &e) {
		r.Detail = e.Detail
		if e.Limit != nil {
			r.Limit, r.Current, r.Cap = e.Limit.Name, e.Limit.Current, e.Limit.Cap
			r.RetryAfterMS = e.Limit.RetryAfter.Milliseconds()
		}
	}
	r.LookupID = LookupOf(err)
	return r
}

// Err returns a received report as an *Error. If its reason is unknown, the outcome is
// [FromCode](code).
func (r Report) Err(code int) error {
	o, ok := Parse(r.Reason)
	if !ok {
		o = FromCode(code)
	}
	msg := r.Message
	if msg == "" {
		msg = o.String()
	}
	e := &Error{Outcome: o, Message: msg, Detail: r.Detail, LookupID: r.LookupID}
	if r.Limit != "" || r.RetryAfterMS > 0 {
		e.Limit = &Limit{Name: r.Limit, Current: r.Current, Cap: r.Cap,
			RetryAfter: time.Duration(r.RetryAfterMS) * time.Millisecond}
	}
	return e
}
