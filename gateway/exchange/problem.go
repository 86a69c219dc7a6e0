package exchange

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"allium/gateway/api"
	"allium/protocols/status"
)

// Problem sends err as an RFC 9457 problem with the headers of SPEC §3. It is the only place
// that turns an error into an answer. If hideInternal is true, the problem of an error that
// [status.Hidden] keeps for the operator has no details; the log has them under the same corr_id.
func (w *Response) Problem(r *http.Request, err error, hideInternal bool) {
	h := w.Header()
	corr := h.Get("X-Corr-ID")
	rep := status.ReportOf(err)
	code := status.Of(err).Code()
	detail := rep.Message // the clients of the local API turn it back into an error
	if hideInternal {
		detail = Sentence(err)
	}
	if hideInternal && status.Hidden(err) {
		why := "an internal error occurred"
		if status.FromOS(err) {
			why = "it cannot use its own files or its network"
		}
		detail = "the node failed to answer: " + why + ". Its log has the details under corr_id " + corr + "."
	}
	p := api.Problem{
		Type: "urn:allium:problem:" + rep.Reason, Title: strings.ReplaceAll(rep.Reason, "_", " "), Status: code,
		Detail: detail, Instance: "urn:allium:request:" + corr,
		Reason: rep.Reason, Label: rep.Detail, Limit: rep.Limit, Current: rep.Current, Cap: rep.Cap,
		RetryAfterMS: rep.RetryAfterMS, LookupID: rep.LookupID,
	}
	body, jerr := json.Marshal(&p)
	if jerr != nil {
		body = []byte("{}") // strings and numbers always marshal
	}
	h.Set("X-Reason", rep.Reason)
	h.Set("Cache-Control", "no-store")
	if status.Of(err) == status.Draining {
		h.Set("Connection", "close") // in HTTP/2: GOAWAY, and other requests in flight finish
	}
	if code == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer") // RFC 9110 §15.5.2
	}
	if after := RetryAfter(status.Of(err), rep); after > 0 {
		h.Set("Retry-After", strconv.FormatInt(after, 10))
	}
	media := MediaProblem
	if w.Pages != NoPages {
		h.Set("Vary", "Accept")
		if WantsPage(r) {
			p.Detail = EscapeName(p.Detail)
			if page, err := problemPage(w.Frame(), r, p); err == nil {
				media, body = MediaHTML, page
				h.Set("Content-Security-Policy", PagePolicy)
			}
		}
	}
	_ = w.Send(r, code, media, body) // a client that is gone cannot be told
}

// RetryAfter returns the value of Retry-After in seconds: the wait that the error carries,
// rounded up, or 1 if a retry helps soon. 0 means no header.
func RetryAfter(o status.Outcome, rep status.Report) int64 {
	if rep.RetryAfterMS > 0 {
		wait := time.Duration(rep.RetryAfterMS) * time.Millisecond
		return max(1, int64(math.Ceil(wait.Seconds())))
	}
	switch o.Retry() {
	case status.RetryAfter, status.RetryYes:
		return 1
	default:
		return 0
	}
}
