package dht

import "allium/protocols/status"

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

// refusals lists every Refusal with its outcome (SPEC §3).
var refusals = map[Refusal]status.Outcome{
	Oversize:      status.BodyCap,
	Unsigned:      status.BadSignature,
	WrongType:     status.BadSignature,
	BadSignature:  status.BadSignature,
	Malformed:     status.BadRequest,
	WrongProvider: status.BadSignature,
	WrongKey:      status.BadRequest,
	WrongSender:   status.NotAllowed,
	Expired:       status.Stale,
	FutureDated:   status.Stale,
	BadPeerRecord: status.BadSignature,
	Stale:         status.Stale,
	Full:          status.Quota,
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
