package messages

import (
	"errors"

	"allium/protocols/record"
	"allium/protocols/status"
)

// Refusal says why a provider record was refused. It is the reason in a response (OAP1 §11) and
// a label of a metric, so the list is closed.
type Refusal string

// The refusals, in the order in which a record is checked.
const (
	Oversize      Refusal = "oversize"       // envelope or peer record exceeds its bound
	Unsigned      Refusal = "unsigned"       // not an envelope
	WrongType     Refusal = "wrong_type"     // an envelope of another type
	BadSignature  Refusal = "bad_signature"  // the signature does not verify
	Malformed     Refusal = "malformed"      // not the deterministic CBOR of OAP1 §11
	WrongProvider Refusal = "wrong_provider" // not signed with the provider's key
	WrongKey      Refusal = "wrong_key"      // for another object than requested
	WrongSender   Refusal = "wrong_sender"   // sent by another peer than the provider
	Expired       Refusal = "expired"        // not_after has passed
	FutureDated   Refusal = "future_dated"   // would live longer than 24 h
	BadPeerRecord Refusal = "bad_peer_record"
	Stale         Refusal = "stale" // a newer record of that provider is stored
	Full          Refusal = "full"  // no place for another record
)

// RefusalInfo documents a Refusal.
type RefusalInfo struct {
	Refusal Refusal
	Outcome status.Outcome
	Doc     string
}

// Refusals lists every Refusal, in the order in which a record is checked.
func Refusals() []RefusalInfo {
	return []RefusalInfo{
		{Oversize, status.BodyCap, "the envelope or the peer record exceeds its bound"},
		{Unsigned, status.BadSignature, "it is not an envelope"},
		{WrongType, status.BadSignature, "the envelope has another type"},
		{BadSignature, status.BadSignature, "the signature does not verify"},
		{Malformed, status.BadRequest, "it is not the deterministic CBOR of a provider record"},
		{WrongProvider, status.BadSignature, "it is not signed with the provider's key"},
		{WrongKey, status.BadRequest, "it is for another object than the request"},
		{WrongSender, status.NotAllowed, "another peer than the provider sent it"},
		{Expired, status.Stale, "it has expired"},
		{FutureDated, status.Stale, "it ends more than 24 h, plus 2 minutes for clocks that differ, from now"},
		{BadPeerRecord, status.BadSignature, "the peer record is not the provider's, or does not verify"},
		{Stale, status.Stale, "a newer record of the provider is stored"},
		{Full, status.Quota, "there is no place for another record of the provider, " +
			"or of the IP group of the sender's connection"},
	}
}

// refusals maps every Refusal to its outcome (SPEC §3).
var refusals = func() map[Refusal]status.Outcome {
	m := map[Refusal]status.Outcome{}
	for _, r := range Refusals() {
		m[r.Refusal] = r.Outcome
	}
	return m
}()

// RecordError reports a refused provider record.
type RecordError = record.RefusedError[Refusal]

// Refuse returns the *[RecordError] of r. err is the cause and may be nil.
func Refuse(r Refusal, err error) error {
	return &RecordError{Kind: "provider record", Refusal: r, Outcome: refusals[r], Err: err}
}

// RefusalOf returns the refusal in err, empty if err is not a *[RecordError].
func RefusalOf(err error) Refusal {
	var re *RecordError
	if errors.As(err, &re) {
		return re.Refusal
	}
	return ""
}
