package object

import (
	"context"
	"encoding/json"
	"errors"

	"allium/protocols/oap"
	"allium/protocols/status"
)

// codeOf returns the wire code of an outcome (OAP1.md §8).
func codeOf(o status.Outcome) uint16 { return uint16(o.Code()) }

// report returns the code and the payload of a status frame for err. It hides the
// message of an error that is for the operator alone from the peer.
func report(err error) (uint16, []byte) {
	r := status.ReportOf(err)
	o := status.Of(err)
	if status.Hidden(err) {
		r = status.Report{Reason: o.String(), Message: "the node could not do it; the operator's log says why"}
	}
	r.Message = clip(r.Message)
	p, err := json.Marshal(r)
	if err != nil {
		p = nil // cannot happen; the code alone is a valid answer
	}
	return codeOf(o), p
}

// remoteError returns the error in a status frame. A peer may report only the
// outcomes of mayReport. Any other code, such as success or internal, is upstream.
func remoteError(f oap.Frame) error {
	var r status.Report
	if len(f.Payload) > 0 {
		if err := oap.DecodeJSON(f.Payload, &r, true); err != nil {
			return status.Errorf(status.Upstream, "code %d with a malformed report: %w", f.Code, err)
		}
	}
	o, ok := status.Parse(r.Reason)
	if !ok || codeOf(o) != f.Code {
		o = status.FromCode(int(f.Code))
	}
	if !mayReport(o) {
		return status.Errorf(status.Upstream, "the peer answered %d %s: %s", f.Code, clip(r.Reason), clip(r.Message))
	}
	r.Reason, r.Message = o.String(), "the peer answered: "+clip(r.Message)
	r.Detail, r.Limit, r.LookupID = clip(r.Detail), clip(r.Limit), clip(r.LookupID)
	return r.Err(int(f.Code))
}

// mayReport reports whether an outcome of a peer is passed on unchanged.
func mayReport(o status.Outcome) bool {
	switch o {
	case status.NotFound, status.Gone, status.Corrupt, status.Denied, status.BadRange:
		return true
	}
	return ofRequest(o)
}

// ofRequest reports whether an outcome concerns the whole request and not one
// object. Such an outcome ends the answer.
func ofRequest(o status.Outcome) bool {
	switch o {
	case status.BadRequest, status.BadAddress, status.Unsupported,
		status.Unauthenticated, status.Forbidden, status.NotAllowed, status.Busy, status.RateLimit, status.Quota,
		status.BreakerOpen, status.NotReady, status.Draining, status.Amnesia,
		status.Timeout, status.Canceled:
		return true
	}
	return false
}

// ctxError returns the cause of ctx in place of err if ctx has ended. A nil err stays
// nil.
func ctxError(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && cause != nil {
		if errors.Is(cause, context.DeadlineExceeded) {
			return status.Errorf(status.Timeout, "the deadline passed: %w", cause)
		}
		return cause
	}
	return err
}
