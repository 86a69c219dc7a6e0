package capability

import "allium/protocols/status"

// Refusal says why a capability does not do. It is the Detail of the error, and
// a label of metrics: the list is closed.
type Refusal string

// Refusals of a capability that says nothing about its bearer: the outcome is
// unauthenticated.
const (
	Malformed    Refusal = "bad_token"     // not a token, or beyond the bounds of one
	UnknownKey   Refusal = "unknown_key"   // minted by a root key that this node has not, or not any more
	BadSignature Refusal = "bad_signature" // changed, or minted elsewhere
	Future       Refusal = "from_future"   // minted later than now
	Revoked      Refusal = "revoked"
	Expired      Refusal = "expired"
)

// Refusals of one that is genuine and does not allow what is asked: forbidden.
const (
	NoExpiry      Refusal = "no_expiry"
	UnknownCaveat Refusal = "unknown_caveat"
	WrongOp       Refusal = "caveat_op"
	WrongObject   Refusal = "caveat_obj"
	WrongName     Refusal = "caveat_name"
	WrongMethod   Refusal = "caveat_method"
	TooManyBytes  Refusal = "caveat_bytes"
	WrongNode     Refusal = "caveat_aud"
	WrongLabel    Refusal = "caveat_label"
)

// TooOften is a request over the caveat's rate: rate_limit.
const TooOften Refusal = "caveat_rate"

// Refusals are all of them.
func Refusals() []Refusal {
	return []Refusal{
		Malformed, UnknownKey, BadSignature, Future, Revoked, Expired,
		NoExpiry, UnknownCaveat, WrongOp, WrongObject, WrongName, WrongMethod, TooManyBytes, WrongNode, WrongLabel, TooOften,
	}
}

// unauthenticated refuses a capability as a whole.
func unauthenticated(why Refusal, format string, args ...any) *status.Error {
	return refuse(status.Unauthenticated, why, format, args...)
}

// forbidden refuses what a genuine capability does not allow.
func forbidden(why Refusal, format string, args ...any) *status.Error {
	return refuse(status.Forbidden, why, format, args...)
}

func refuse(o status.Outcome, why Refusal, format string, args ...any) *status.Error {
	err := status.Errorf(o, format, args...)
	err.Detail = string(why)
	return err
}
