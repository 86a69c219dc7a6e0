package api

import (
	"encoding/json"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// Problem is an error answer: RFC 9457 with the members of SPEC §3.
type Problem struct {
	Type     string `json:"type"`  // "urn:allium:problem:<reason>"
	Title    string `json:"title"` // the reason in words
	Status   int    `json:"status"`
	Detail   string `json:"detail"`             // what happened and what to do
	Instance string `json:"instance,omitempty"` // "urn:allium:request:<corr id>"

	Reason       string `json:"reason"`          // the outcome
	Label        string `json:"label,omitempty"` // a narrower label (status.Report's detail)
	Limit        string `json:"limit,omitempty"`
	Current      int64  `json:"current,omitempty"`
	Cap          int64  `json:"cap,omitempty"`
	RetryAfterMS int64  `json:"retry_after_ms,omitempty"`
	LookupID     string `json:"lookup_id,omitempty"`
}

// Report returns the report that the problem was made of.
func (p Problem) Report() status.Report {
	return status.Report{
		Reason: p.Reason, Message: p.Detail, Detail: p.Label, Limit: p.Limit, Current: p.Current, Cap: p.Cap,
		RetryAfterMS: p.RetryAfterMS, LookupID: p.LookupID,
	}
}

// Line is one line of an NDJSON answer. One member is set; ok or error is the
// last line, and an answer that ends before it was cut. A trace, where one was
// asked for, is the line before that.
type Line struct {
	Progress *Progress       `json:"progress,omitempty"`
	Item     json.RawMessage `json:"item,omitempty"`
	Roots    []b3.Root       `json:"roots,omitempty"` // a few hundred; see HeaderRoots
	Trace    *Trace          `json:"trace,omitempty"`
	OK       json.RawMessage `json:"ok,omitempty"` // the result, {} if there is none
	Error    *status.Report  `json:"error,omitempty"`
}

// The headers of the API.
const (
	HeaderObject = "X-Allium-Object" // JSON of Object, on get and cat
	HeaderStatus = "X-Allium-Status" // trailer of get and cat: "ok" or JSON of a status.Report
	StatusOK     = "ok"              // the value of HeaderStatus after the last byte

	// HeaderRoots of a request to add is "true" when the client wants the
	// addresses of the files that the tar carries, as lines with the member roots.
	// It is a header because a node that does not know it ignores it.
	HeaderRoots = "X-Allium-Roots"
)
