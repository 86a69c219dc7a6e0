package oap

import (
	"strings"

	"allium/protocols/status"
)

// maxMessage bounds the message of an error payload, in bytes, so that the
// payload stays far below MaxJSON.
const maxMessage = 4 << 10

// ErrorPayload returns the code and the payload of the RESP|END frame that reports err (SPEC.md §8).
// For a nil err they are 200 and nil.
func ErrorPayload(err error) (code uint16, payload []byte) {
	o := status.Of(err)
	code = uint16(o.Code())
	if err == nil {
		return code, nil
	}
	r := status.ReportOf(err)
	if len(r.Message) > maxMessage {
		r.Message = r.Message[:maxMessage]
	}
	r.Message = strings.ToValidUTF8(r.Message, "\uFFFD")
	return code, encode(r)
}

// PayloadError returns the error that a RESP|END frame with that code and payload reports. It is nil
// for a code from 200 to 299 and for 304. If the payload is malformed, the code alone decides the
// outcome.
func PayloadError(code uint16, payload []byte) error {
	if code >= 200 && code < 300 || code == uint16(status.NotModified.Code()) {
		return nil
	}
	var r status.Report
	if err := DecodeJSON(payload, &r, true); err != nil {
		r = status.Report{}
	}
	if o, ok := status.Parse(r.Reason); ok && o.Success() {
		r.Reason = "" // the code says error, so a reason that means success is ignored
	}
	return &Told{r.Err(int(code))}
}

// Told is an error that a peer reported. Its outcome describes the peer; it says nothing about this
// node.
type Told struct{ Err error }

// Error returns the peer's message.
func (t *Told) Error() string { return t.Err.Error() }

// Unwrap returns the error that carries the outcome.
func (t *Told) Unwrap() error { return t.Err }
