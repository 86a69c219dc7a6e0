package status

import "fmt"

// Outcome is one of the closed list of outcomes in SPEC §3. The zero value is OK. A new outcome is
// added to SPEC §3 and to this package's table.
type Outcome uint8

// The outcomes, in the order of SPEC §3.
const (
	OK Outcome = iota
	Partial
	NotModified

	// The request is malformed, its address is, or it asks for something unknown.
	BadRequest
	BadAddress
	Unsupported // an unknown operation or encoding

	// The capability is missing or insufficient.
	Unauthenticated
	Forbidden

	NotAllowed // policy forbids it, for example because the source or peer is not on an allow list
	Denied     // the denylist forbids it

	NotFound // there is no provider
	Gone     // it has expired or was withdrawn

	Method // the path does not accept the HTTP method

	Conflict  // other content has that key
	BadDigest // the bytes do not hash to the address

	Precondition // a condition of the request is not met, such as If-Match or only-if-cached

	// The body, its decompressed form or an OAP frame is too large.
	BodyCap
	DecompressCap
	FrameOversize

	BadRange

	// A signed record is refused.
	Stale
	BadSignature
	Equivocation

	// A limit or a circuit breaker refused the request. A later request may succeed.
	Busy
	RateLimit
	Quota
	BreakerOpen

	Canceled // the caller ended the request

	Internal // a bug, logged with its stack

	// Verification failed, or a peer or origin misbehaved.
	Corrupt
	Upstream
	EtagInvalid

	// The node cannot serve the request now, or cannot be reached.
	NotReady
	Draining
	Amnesia
	TransportDown
	NoBootstrap

	// A deadline passed, or a lookup took too many steps.
	Timeout
	HopExceeded

	NoSpace // there is no space left to store the data

	BadFrame // an OAP frame was refused for another reason than its size

	outcomes // number of outcomes; keep last
)

// Retry says whether a retry can help, and when.
type Retry uint8

// The values of the "retry helps" column of SPEC §3.
const (
	RetryNever     Retry = iota // the same request gets the same answer
	RetryLater                  // the network may know the answer later
	RetryMaybe                  // a bug: it may or may not happen again
	RetryElsewhere              // another provider may do better
	RetryAfter                  // after the wait in the error's Limit
	RetryYes                    // at once or with back-off
	RetrySpace                  // after space is made
)

// String returns the advice in words. It panics for values other than the constants.
func (r Retry) String() string {
	return [...]string{"no", "later", "maybe", "elsewhere", "after the wait given", "yes", "after space is made"}[r]
}

// row is one line of the table.
type row struct {
	label string
	code  uint16 // OAP status and HTTP status
	exit  uint8  // process exit code
	retry Retry
}

// table is the table of SPEC §3. Parse, FromCode and the methods of [Outcome] read it.
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

// All returns every outcome, in the order of SPEC §3.
func All() []Outcome {
	all := make([]Outcome, outcomes)
	for i := range all {
		all[i] = Outcome(i)
	}
	return all
}

// String returns the outcome's label, as it appears in JSON, metrics and logs.
func (o Outcome) String() string {
	if o >= outcomes {
		return fmt.Sprintf("outcome(%d)", uint8(o))
	}
	return table[o].label
}

// Code returns the OAP and HTTP status.
func (o Outcome) Code() int { return int(o.row().code) }

// Exit returns the process exit code.
func (o Outcome) Exit() int { return int(o.row().exit) }

// Retry returns whether a retry can help.
func (o Outcome) Retry() Retry { return o.row().retry }

// Success reports whether the outcome is one of ok, partial, not_modified.
func (o Outcome) Success() bool { return o <= NotModified }

// row returns the outcome's line of the table. A value outside the table is a bug, so it gets the line
// of Internal.
func (o Outcome) row() row {
	if o >= outcomes {
		o = Internal
	}
	return table[o]
}

// Parse returns the outcome with that label. For an unknown label it returns Internal and false.
func Parse(label string) (Outcome, bool) {
	for i, r := range table {
		if r.label == label {
			return Outcome(i), true
		}
	}
	return Internal, false
}

// FromCode returns the first outcome in the table with that OAP or HTTP code. It is for answers whose
// label is missing or unknown. An unknown code is the mistake of the server, so it gives Upstream.
func FromCode(code int) Outcome {
	for i, r := range table {
		if int(r.code) == code {
			return Outcome(i)
		}
	}
	return Upstream
}
