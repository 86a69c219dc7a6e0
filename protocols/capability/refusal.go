package capability

import "allium/protocols/status"

// Refusal says why a capability does not allow a request. It is the Detail of the
// error and a metric label, so the list is closed.
type Refusal string

// The refusals with the outcome unauthenticated: the capability is not valid.
const (
	Malformed    Refusal = "bad_token"     // not a token, or larger than a token may be
	UnknownKey   Refusal = "unknown_key"   // minted by a root key that this node does not have (any more)
	BadSignature Refusal = "bad_signature" // changed, or minted by another ring
	Future       Refusal = "from_future"   // minted later than now
	Revoked      Refusal = "revoked"
	Expired      Refusal = "expired"
)

// The refusals with the outcome forbidden: the capability is valid but does not
// allow the request.
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
	TooLong       Refusal = "caveat_exp" // it expires later than one for [Replicate] may
)

// TooOften is the refusal with the outcome rate_limit: the request exceeds the rate
// of a caveat.
const TooOften Refusal = "caveat_rate"

// Refusals returns all refusals.
func Refusals() []Refusal {
	return []Refusal{
		Malformed, UnknownKey, BadSignature, Future, Revoked, Expired,
		NoExpiry, UnknownCaveat,
		WrongOp, WrongObject, WrongName, WrongMethod, TooManyBytes, WrongNode, WrongLabel, TooLong, TooOften,
	}
}

// unauthenticated returns the error for a capability that is not valid.
func unauthenticated(why Refusal, format string, args ...any) *status.Error {
	return refuse(status.Unauthenticated, why, format, args...)
}

// forbidden returns the error for a request that a valid capability does not allow.
func forbidden(why Refusal, format string, args ...any) *status.Error {
	return refuse(status.Forbidden, why, format, args...)
}

func refuse(o status.Outcome, why Refusal, format string, args ...any) *status.Error {
	err := status.Errorf(o, format, args...)
	err.Detail = string(why)
	return err
}
