package oap

import (
	"strings"

	"allium/protocols/status"
)

// maxMessage bounds the message of an error payload, in bytes, so that the
// payload stays far below MaxJSON.
const maxMessage = 4 << 10

// ErrorPayload is what a RESP|END says of err: its code and its payload
// (SPEC.md §8). For nil it is 200 and no payload.
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

// PayloadError is the error that a RESP|END with that code and payload
// carries, nil for the successes of SPEC §3. An unreadable payload leaves the
// code to speak for itself.
func PayloadError(code uint16, payload []byte) error {
	if code >= 200 && code < 300 || code == uint16(status.NotModified.Code()) {
		return nil
	}
	var r status.Report
	if err := DecodeJSON(payload, &r, true); err != nil {
		r = status.Report{}
	}
	if o, ok := status.Parse(r.Reason); ok && o.Success() {
		r.Reason = "" // an error is not a success, whatever it calls itself
	}
	return &Told{r.Err(int(code))}
}

// Told is an error that a peer told of, as against one that was met here: its
// outcome is the peer's, and says nothing of this node.
type Told struct{ Err error }

// Error is what the peer said.
func (t *Told) Error() string { return t.Err.Error() }

// Unwrap gives the error with its outcome.
func (t *Told) Unwrap() error { return t.Err }
