package oap

import (
	"fmt"

	"allium/protocols/status"
)

// Reason is one of the closed list of decode errors (SPEC.md §3). Its value is the index in that list
// and its String the metric label.
type Reason uint8

// The reasons, in the order of SPEC.md §3.
const (
	ReasonTruncated Reason = iota
	ReasonFrameUndersize
	ReasonFrameOversize
	ReasonBadVersion
	ReasonBadFlags
	ReasonCapOnNonStart
	ReasonInflateBound
	ReasonBadHello
	ReasonUnknownProto
	ReasonCreditViolation
	ReasonDupCorr

	reasons // number of reasons; keep last
)

var reasonLabels = [reasons]string{
	"truncated", "frame_undersize", "frame_oversize", "bad_version", "bad_flags", "cap_on_non_start",
	"inflate_bound", "bad_hello", "unknown_proto", "credit_violation", "dup_corr",
}

// reasonMeaning explains each reason to people.
var reasonMeaning = [reasons]string{
	"the stream ended inside a frame",
	"len is smaller than the header and its capability",
	"the frame, its request or its capability is too long",
	"the version is not 1",
	"the flags are not a valid combination",
	"a capability is on a frame that does not start a request",
	"the compressed payload is not zstd or inflates beyond its bound",
	"the HELLO is malformed or unexpected",
	"this application protocol is not served",
	"the ACK goes backwards or covers frames that were not sent",
	"the corr_id is already in flight",
}

// String returns the label of SPEC.md §3.
func (r Reason) String() string {
	if r >= reasons {
		return fmt.Sprintf("reason(%d)", uint8(r))
	}
	return reasonLabels[r]
}

// StreamErrorCode returns the code with which a stream is reset for this reason.
func (r Reason) StreamErrorCode() uint32 { return streamErrorBase + uint32(r) }

// Answered reports whether a frame refused for this reason is answered with RESP|END 400 and the
// stream stays open. Every other reason resets the stream.
func (r Reason) Answered() bool { return r == ReasonUnknownProto || r == ReasonDupCorr }

// streamErrorBase is the code of a reset for the first reason; each next reason adds 1.
const streamErrorBase = 0xA100

// ReasonOfStreamError returns the reason for which a peer reset a stream with that code, and false if
// the code stands for no reason.
func ReasonOfStreamError(code uint32) (Reason, bool) {
	if code < streamErrorBase || code >= streamErrorBase+uint32(reasons) {
		return 0, false
	}
	return Reason(code - streamErrorBase), true
}

// DecodeError reports that a frame was refused.
type DecodeError struct {
	Reason Reason
	Detail string // the values that broke the rule; may be empty
}

// Refuse returns a *DecodeError. It is for the reasons that only the protocols above this package can
// detect: bad_hello, unknown_proto, credit_violation and dup_corr.
func Refuse(r Reason, format string, args ...any) error { return refuse(r, format, args...) }

// refuse returns a DecodeError with a formatted detail.
func refuse(r Reason, format string, args ...any) *DecodeError {
	return &DecodeError{Reason: r, Detail: fmt.Sprintf(format, args...)}
}

// Error returns the label, its meaning and the detail.
func (e *DecodeError) Error() string {
	msg := e.Reason.String()
	if e.Reason < reasons {
		msg += ": " + reasonMeaning[e.Reason]
	}
	if e.Detail != "" {
		msg += " (" + e.Detail + ")"
	}
	return msg
}

// Status returns frame_oversize for ReasonFrameOversize and bad_frame for every other reason.
func (e *DecodeError) Status() status.Outcome {
	if e.Reason == ReasonFrameOversize {
		return status.FrameOversize
	}
	return status.BadFrame
}

// StreamErrorCode returns the code with which the stream is reset.
func (e *DecodeError) StreamErrorCode() uint32 { return e.Reason.StreamErrorCode() }

// Unwrap returns a status error whose detail is the label, so that reports contain it (SPEC §3 of the
// product).
func (e *DecodeError) Unwrap() error {
	return &status.Error{Outcome: e.Status(), Message: e.Error(), Detail: e.Reason.String()}
}

// Reasons returns all reasons.
func Reasons() []Reason {
	all := make([]Reason, reasons)
	for i := range all {
		all[i] = Reason(i)
	}
	return all
}
