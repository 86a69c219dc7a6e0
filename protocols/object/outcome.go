package object

import (
	"context"
	"encoding/json"
	"errors"

	"allium/protocols/oap"
	"allium/protocols/status"
)

// codeOf is the wire code of an outcome (OAP1.md §8).
func codeOf(o status.Outcome) uint16 { return uint16(o.Code()) }

// report is an error as a peer may see it: what goes on inside the node stays
// there.
func report(err error) (uint16, []byte) {
	r := status.ReportOf(err)
	o := status.Of(err)
	if o == status.Internal {
		r = status.Report{Reason: o.String(), Message: "the node could not do it; the operator's log says why"}
	}
	r.Message = clip(r.Message)
	p, err := json.Marshal(r)
	if err != nil {
		p = nil // a report always marshals; the code alone says enough
	}
	return codeOf(o), p
}

// remoteError is the error that a status frame carries. A peer cannot make us
// believe in success, nor in a bug of our own: what it may not say is upstream.
func remoteError(f oap.Frame) error {
	var r status.Report
	if len(f.Payload) > 0 {
		if err := oap.DecodeJSON(f.Payload, &r, true); err != nil {
			return status.Errorf(status.Upstream, "object: code %d with a malformed report: %w", f.Code, err)
		}
	}
	o, ok := status.Parse(r.Reason)
	if !ok || codeOf(o) != f.Code {
		o = status.FromCode(int(f.Code))
	}
	if !mayReport(o) {
		return status.Errorf(status.Upstream, "object: the peer answered %d %s: %s", f.Code, clip(r.Reason), clip(r.Message))
	}
	r.Reason, r.Message = o.String(), "the peer answered: "+clip(r.Message)
	r.Detail, r.Limit, r.LookupID = clip(r.Detail), clip(r.Limit), clip(r.LookupID)
	return r.Err(int(f.Code))
}

// mayReport says which outcomes of a peer are passed on as they are.
func mayReport(o status.Outcome) bool {
	switch o {
	case status.NotFound, status.Gone, status.Corrupt, status.Denied, status.BadRange:
		return true
	}
	return ofRequest(o)
}

// ofRequest reports whether an outcome is about the request and not about one
// object of it: the objects that were not answered yet will not be.
func ofRequest(o status.Outcome) bool {
	switch o {
	case status.BadRequest, status.BadAddress, status.Unsupported, status.Unauthenticated, status.Forbidden, status.NotAllowed,
		status.Busy, status.RateLimit, status.Quota, status.BreakerOpen, status.NotReady, status.Draining, status.Amnesia,
		status.Timeout, status.Canceled:
		return true
	}
	return false
}

// ctxError is err, or why ctx ended when that is what caused it.
func ctxError(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && cause != nil {
		if errors.Is(cause, context.DeadlineExceeded) {
			return status.Errorf(status.Timeout, "object: the deadline passed: %w", cause)
		}
		return cause
	}
	return err
}
