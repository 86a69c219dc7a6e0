package status

import "fmt"

// Outcome is one line of the closed table of SPEC §3. The zero value is OK.
// New outcomes are added to the table, never invented beside it.
type Outcome uint8

// The outcomes, in the order of SPEC §3.
const (
	OK Outcome = iota
	Partial
	NotModified

	BadRequest
	BadAddress
	Unsupported

	Unauthenticated
	Forbidden

	NotAllowed
	Denied

	NotFound
	Gone

	Method

	Conflict
	BadDigest

	Precondition

	BodyCap
	DecompressCap
	FrameOversize

	BadRange

	Stale
	BadSignature
	Equivocation

	Busy
	RateLimit
	Quota
	BreakerOpen

	Canceled

	Internal

	Corrupt
	Upstream
	EtagInvalid

	NotReady
	Draining
	Amnesia
	TransportDown
	NoBootstrap

	Timeout
	HopExceeded

	NoSpace

	BadFrame

	outcomes // number of outcomes; keep last
)

// Retry says whether asking again can help, and when.
type Retry uint8

// The values of the "retry helps" column of SPEC §3.
const (
	RetryNever     Retry = iota // the same request gives the same answer
	RetryLater                  // the network may learn the answer
	RetryMaybe                  // a bug: it may or may not happen again
	RetryElsewhere              // another provider may do better
	RetryAfter                  // after the wait that the error carries
	RetryYes                    // at once or with back-off
	RetrySpace                  // after space is made
)

// String is the advice in words.
func (r Retry) String() string {
	return [...]string{"no", "later", "maybe", "elsewhere", "after the wait given", "yes", "after space is made"}[r]
}

// row is one line of the table: what every surface says for one outcome.
type row struct {
	label string
	code  uint16 // OAP status and HTTP status
	exit  uint8  // process exit code
	retry Retry
}

// table is SPEC §3. Everything that translates an outcome reads it.
var table = [outcomes]row{
	OK:              {"ok", 200, 0, RetryNever},
	Partial:         {"partial", 206, 0, RetryNever},
	NotModified:     {"not_modified", 304, 0, RetryNever},
	BadRequest:      {"bad_request", 400, 2, RetryNever},
	BadAddress:      {"bad_address", 400, 2, RetryNever},
	Unsupported:     {"unsupported", 415, 2, RetryNever},
	Unauthenticated: {"unauthenticated", 401, 77, RetryNever},
	Forbidden:       {"forbidden", 403, 77, RetryNever},
	NotAllowed:      {"not_allowed", 403, 77, RetryNever},
	Denied:          {"denied", 451, 77, RetryNever},
	NotFound:        {"not_found", 404, 4, RetryLater},
	Gone:            {"gone", 410, 4, RetryLater},
	Method:          {"method", 405, 2, RetryNever},
	Conflict:        {"conflict", 409, 5, RetryNever},
	BadDigest:       {"bad_digest", 409, 5, RetryNever},
	Precondition:    {"precondition", 412, 5, RetryNever},
	BodyCap:         {"body_cap", 413, 6, RetryNever},
	DecompressCap:   {"decompress_cap", 413, 6, RetryNever},
	FrameOversize:   {"frame_oversize", 413, 6, RetryNever},
	BadRange:        {"bad_range", 416, 2, RetryNever},
	Stale:           {"stale", 422, 5, RetryNever},
	BadSignature:    {"bad_signature", 422, 5, RetryNever},
	Equivocation:    {"equivocation", 422, 5, RetryNever},
	Busy:            {"busy", 429, 75, RetryAfter},
	RateLimit:       {"rate_limit", 429, 75, RetryAfter},
	Quota:           {"quota", 429, 75, RetryAfter},
	BreakerOpen:     {"breaker_open", 503, 75, RetryAfter},
	Canceled:        {"canceled", 499, 130, RetryNever},
	Internal:        {"internal", 500, 70, RetryMaybe},
	Corrupt:         {"corrupt", 502, 65, RetryElsewhere},
	Upstream:        {"upstream", 502, 65, RetryElsewhere},
	EtagInvalid:     {"etag_invalid", 502, 65, RetryElsewhere},
	NotReady:        {"not_ready", 503, 69, RetryYes},
	Draining:        {"draining", 503, 69, RetryYes},
	Amnesia:         {"amnesia", 503, 69, RetryYes},
	TransportDown:   {"transport_down", 503, 69, RetryYes},
	NoBootstrap:     {"no_bootstrap", 503, 69, RetryYes},
	Timeout:         {"timeout", 504, 124, RetryYes},
	HopExceeded:     {"hop_exceeded", 504, 124, RetryYes},
	NoSpace:         {"no_space", 507, 28, RetrySpace},
	BadFrame:        {"bad_frame", 400, 65, RetryNever},
}

// All lists every outcome in the order of SPEC §3.
func All() []Outcome {
	all := make([]Outcome, outcomes)
	for i := range all {
		all[i] = Outcome(i)
	}
	return all
}

// String is the outcome's label, as it appears in JSON, metrics and logs.
func (o Outcome) String() string {
	if o >= outcomes {
		return fmt.Sprintf("outcome(%d)", uint8(o))
	}
	return table[o].label
}

// Code is the OAP and HTTP status.
func (o Outcome) Code() int { return int(o.row().code) }

// Exit is the process exit code.
func (o Outcome) Exit() int { return int(o.row().exit) }

// Retry says whether asking again can help.
func (o Outcome) Retry() Retry { return o.row().retry }

// Success reports whether the outcome is one of ok, partial, not_modified.
func (o Outcome) Success() bool { return o <= NotModified }

// row maps values outside the table to internal: an unknown outcome is a bug.
func (o Outcome) row() row {
	if o >= outcomes {
		o = Internal
	}
	return table[o]
}

// Parse returns the outcome with that label.
func Parse(label string) (Outcome, bool) {
	for i, r := range table {
		if r.label == label {
			return Outcome(i), true
		}
	}
	return Internal, false
}

// FromCode returns the first outcome with that OAP or HTTP code, for answers
// whose label is missing or unknown; an unknown code is upstream's mistake.
func FromCode(code int) Outcome {
	for i, r := range table {
		if int(r.code) == code {
			return Outcome(i)
		}
	}
	return Upstream
}
