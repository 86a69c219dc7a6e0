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
	Detail   string // a narrower label, such as a reason of OAP1.md §3
	Limit    *Limit // set for busy-class outcomes
	LookupID string // names the lookup in the log; empty when none was made
	Err      error  // the cause, if any
}

// Limit describes the bound that a busy-class outcome ran into.
type Limit struct {
	Name       string        // as in the registry of limits, e.g. "gateway.inflight"
	Current    int64         // in the limit's own unit
	Cap        int64         // in the limit's own unit
	RetryAfter time.Duration // estimated wait, 100 ms – 30 s
}

// Errorf returns an *Error with the outcome and a formatted message. An
// operand of %w is kept as the cause.
func Errorf(o Outcome, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Outcome: o, Message: err.Error(), Err: errors.Unwrap(err)}
}

// BusyError returns a busy-class error that carries the limit it ran into.
func BusyError(o Outcome, l Limit) *Error {
	return &Error{
		Outcome: o,
		Message: fmt.Sprintf("%s is at its limit (%d of %d); try again in %s", l.Name, l.Current, l.Cap, l.RetryAfter.Round(time.Millisecond)),
		Limit:   &l,
	}
}

// Error is the message.
func (e *Error) Error() string { return e.Message }

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Err }

// Status is the outcome.
func (e *Error) Status() Outcome { return e.Outcome }

// Of walks err's chain to its outcome: the first error with a Status method
// decides; then cancellation, deadlines and the operating system's own errors
// (see [System]). nil is OK, anything unknown is internal.
func Of(err error) Outcome {
	if err == nil {
		return OK
	}
	if e, ok := err.(*Error); ok { //nolint:errorlint // what wraps one comes below
		return e.Outcome // the same, for nothing: refusals must be cheap
	}
	var s interface{ Status() Outcome }
	if errors.As(err, &s) {
		return s.Status()
	}
	// quic-go, yamux and net each have a timeout type of their own.
	var t interface{ Timeout() bool }
	switch {
	case errors.Is(err, context.Canceled):
		return Canceled
	case errors.As(err, &t) && t.Timeout():
		return Timeout
	}
	o, _ := System(err)
	return o
}

// Report is an error on the wire: the payload of an OAP error (OAP1.md §8),
// the extension members of an HTTP problem and the command line's --json form.
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

// ReportOf returns what may be said of err to someone else. The message is
// the whole chain's; members come from the first *Error in it.
func ReportOf(err error) Report {
	r := Report{Reason: Of(err).String()}
	if err != nil {
		r.Message = err.Error()
	}
	var e *Error
	if errors.As(err, &e) {
		r.Detail, r.LookupID = e.Detail, e.LookupID
		if e.Limit != nil {
			r.Limit, r.Current, r.Cap = e.Limit.Name, e.Limit.Current, e.Limit.Cap
			r.RetryAfterMS = e.Limit.RetryAfter.Milliseconds()
		}
	}
	return r
}

// Err turns a received report back into an error. An unknown reason falls
// back to the first outcome of code.
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
		e.Limit = &Limit{Name: r.Limit, Current: r.Current, Cap: r.Cap, RetryAfter: time.Duration(r.RetryAfterMS) * time.Millisecond}
	}
	return e
}
