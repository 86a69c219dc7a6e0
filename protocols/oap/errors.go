package oap

import (
	"fmt"

	"allium/protocols/status"
)

// Reason is one of the closed list of decode errors (SPEC.md §3). Its value is
// the index of the list, its String the metric label.
type Reason uint8

// The reasons, in the order in which they are checked.
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

var reasonMeaning = [reasons]string{
	"the stream ended inside a frame", "the frame is shorter than its header says", "the frame is longer than max_frame",
	"the version is not 1", "the flags break the rule", "a capability on a frame that does not start a request",
	"the compressed payload is not zstd or inflates too far", "the HELLO is malformed or unexpected",
	"nobody serves the application protocol", "the ACK goes backwards or covers what was not sent",
	"the corr_id is already in flight",
}

// String is the label of SPEC.md §3.
func (r Reason) String() string {
	if r >= reasons {
		return fmt.Sprintf("reason(%d)", uint8(r))
	}
	return reasonLabels[r]
}

// StreamErrorCode is the code a stream is reset with for this reason.
func (r Reason) StreamErrorCode() uint32 { return streamErrorBase + uint32(r) }

// Answered reports whether the frame is answered RESP|END 400 and the stream
// lives; every other reason resets it.
func (r Reason) Answered() bool { return r == ReasonUnknownProto || r == ReasonDupCorr }

// streamErrorBase + index is the code of a reset.
const streamErrorBase = 0xA100

// ReasonOfStreamError is the reason that a peer gave in the code of a reset.
func ReasonOfStreamError(code uint32) (Reason, bool) {
	if code < streamErrorBase || code >= streamErrorBase+uint32(reasons) {
		return 0, false
	}
	return Reason(code - streamErrorBase), true
}

// DecodeError is the refusal of a frame.
type DecodeError struct {
	Reason Reason
	Detail string // the numbers that broke the rule; may be empty
}

// Refuse returns the DecodeError of a reason that only the protocols above can
// see: bad_hello, unknown_proto, credit_violation, dup_corr.
func Refuse(r Reason, format string, args ...any) error { return refuse(r, format, args...) }

func refuse(r Reason, format string, args ...any) *DecodeError {
	return &DecodeError{Reason: r, Detail: fmt.Sprintf(format, args...)}
}

// Error says what is wrong with the frame.
func (e *DecodeError) Error() string {
	msg := "oap: " + e.Reason.String()
	if e.Reason < reasons {
		msg += ": " + reasonMeaning[e.Reason]
	}
	if e.Detail != "" {
		msg += " (" + e.Detail + ")"
	}
	return msg
}

// Status is frame_oversize for that reason and bad_frame for every other.
func (e *DecodeError) Status() status.Outcome {
	if e.Reason == ReasonFrameOversize {
		return status.FrameOversize
	}
	return status.BadFrame
}

// StreamErrorCode is the code to reset the stream with.
func (e *DecodeError) StreamErrorCode() uint32 { return e.Reason.StreamErrorCode() }

// Unwrap carries the label into reports, as SPEC §3 of the product asks.
func (e *DecodeError) Unwrap() error {
	return &status.Error{Outcome: e.Status(), Message: e.Error(), Detail: e.Reason.String()}
}
