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

// Problem answers with err as RFC 9457 and the headers of SPEC §3. It is the
// only place that turns an error into an answer. A discreet one does not tell
// what went wrong inside: the log has it under the same id.
func (w *Response) Problem(r *http.Request, err error, discreet bool) {
	h := w.Header()
	corr := h.Get("X-Corr-ID")
	rep := status.ReportOf(err)
	code := status.Of(err).Code()
	if discreet && status.Of(err) == status.Internal {
		rep.Message = "something went wrong inside the node; its log says what under corr_id " + corr
	}
	p := api.Problem{
		Type: "urn:allium:problem:" + rep.Reason, Title: strings.ReplaceAll(rep.Reason, "_", " "), Status: code,
		Detail: rep.Message, Instance: "urn:allium:request:" + corr,
		Reason: rep.Reason, Label: rep.Detail, Limit: rep.Limit, Current: rep.Current, Cap: rep.Cap,
		RetryAfterMS: rep.RetryAfterMS, LookupID: rep.LookupID,
	}
	body, jerr := json.Marshal(p)
	if jerr != nil {
		body = []byte("{}") // strings and numbers always marshal
	}
	h.Set("X-Reason", rep.Reason)
	h.Set("Cache-Control", "no-store")
	if status.Of(err) == status.Draining {
		h.Set("Connection", "close") // in HTTP/2: GOAWAY, and what is in flight finishes
	}
	if code == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer") // RFC 9110 §15.5.2
	}
	if after := RetryAfter(status.Of(err), rep); after > 0 {
		h.Set("Retry-After", strconv.FormatInt(after, 10))
	}
	media := MediaProblem
	if w.Page {
		h.Set("Vary", "Accept")
		if wantsPage(r) {
			p.Detail = Shown(p.Detail)
			if page, err := problemPage(p); err == nil {
				media, body = MediaHTML, page
				h.Set("Content-Security-Policy", PagePolicy)
			}
		}
	}
	_ = w.Send(r, code, media, body) // the client is told; if it is gone there is nobody to tell
}

// RetryAfter is the wait in whole seconds: the one the error carries, rounded
// up, or one second where asking again soon helps; 0 says nothing.
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
