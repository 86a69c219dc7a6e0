package dht

import (
	"errors"

	"allium/protocols/status"
)

// Refusal says why a provider record was refused. The list is closed: it is
// the reason of an answer on the wire and the label of
// dht_record_rejected_total.
type Refusal string

// The refusals, in the order in which a record is checked.
const (
	Oversize      Refusal = "oversize"       // envelope or peer record above its bound
	Unsigned      Refusal = "unsigned"       // not an envelope
	WrongType     Refusal = "wrong_type"     // an envelope of something else
	BadSignature  Refusal = "bad_signature"  // the signature does not verify
	Malformed     Refusal = "malformed"      // not the deterministic CBOR of OAP1 §11
	WrongProvider Refusal = "wrong_provider" // signed by another key than the provider's
	WrongKey      Refusal = "wrong_key"      // for another object than asked
	WrongSender   Refusal = "wrong_sender"   // put by another peer than the provider
	Expired       Refusal = "expired"        // its time is over
	FutureDated   Refusal = "future_dated"   // it would live longer than 24 h
	BadPeerRecord Refusal = "bad_peer_record"
	Stale         Refusal = "stale" // a newer record of that provider is held
	Full          Refusal = "full"  // no room for another record
)

// RefusalInfo is what the reference says of a Refusal.
type RefusalInfo struct {
	Refusal Refusal
	Outcome status.Outcome
	Doc     string
}

// Refusals lists every Refusal in the order in which a record is checked.
func Refusals() []RefusalInfo {
	return []RefusalInfo{
		{Oversize, status.BodyCap, "the envelope or the peer record is above its bound"},
		{Unsigned, status.BadSignature, "it is not an envelope"},
		{WrongType, status.BadSignature, "the envelope is one of something else"},
		{BadSignature, status.BadSignature, "the signature does not verify"},
		{Malformed, status.BadRequest, "it is not the deterministic CBOR of a provider record"},
		{WrongProvider, status.BadSignature, "it is signed by another key than the provider's"},
		{WrongKey, status.BadRequest, "it is for another object than the request"},
		{WrongSender, status.NotAllowed, "another peer than the provider put it"},
		{Expired, status.Stale, "its time is over"},
		{FutureDated, status.Stale, "it ends more than 24 h, and 2 minutes for clocks that differ, from now"},
		{BadPeerRecord, status.BadSignature, "the peer record is not the provider's, or does not verify"},
		{Stale, status.Stale, "a newer record of the provider is held"},
		{Full, status.Quota, "there is no room for another one of the provider, or of the IP group that the sender's connection is in"},
	}
}

// refusals is the outcome of every Refusal (SPEC §3).
var refusals = outcomes(Refusals())

func outcomes(all []RefusalInfo) map[Refusal]status.Outcome {
	m := make(map[Refusal]status.Outcome, len(all))
	for _, r := range all {
		m[r.Refusal] = r.Outcome
	}
	return m
}

// RecordError is a refused provider record.
type RecordError struct {
	Refusal Refusal
	Err     error // what was found; may be nil
}

// Error says why the record was refused.
func (e *RecordError) Error() string {
	if e.Err == nil {
		return "dht: provider record refused: " + string(e.Refusal)
	}
	return "dht: provider record refused: " + string(e.Refusal) + ": " + e.Err.Error()
}

// Unwrap is the cause.
func (e *RecordError) Unwrap() error { return e.Err }

// Status is the refusal's outcome.
func (e *RecordError) Status() status.Outcome { return refusals[e.Refusal] }

func refuse(r Refusal, err error) error { return &RecordError{Refusal: r, Err: err} }

// refusalOf is the reason for which err refuses a record; empty for another error.
func refusalOf(err error) Refusal {
	var re *RecordError
	if errors.As(err, &re) {
		return re.Refusal
	}
	return ""
}
