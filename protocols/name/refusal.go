package name

import (
	"allium/protocols/record"
	"allium/protocols/status"
)

// Refusal says why a name record was refused. It can be the reason of a response and the label
// of a metric, so the list is closed.
type Refusal string

// The refusals, in the order in which a record is checked.
const (
	Oversize     Refusal = "oversize"      // the envelope exceeds MaxEnvelope
	Unsigned     Refusal = "unsigned"      // not an envelope
	WrongType    Refusal = "wrong_type"    // an envelope of another type
	BadSignature Refusal = "bad_signature" // the signature does not verify
	Malformed    Refusal = "malformed"     // not the deterministic CBOR of OAP1 §11
	BadZone      Refusal = "bad_zone"      // the zone is not an Ed25519 key
	ForeignKey   Refusal = "foreign_key"   // not signed with the key of the zone
	BadLabel     Refusal = "bad_label"     // the label is not in normal form
	BadValue     Refusal = "bad_value"     // the value exceeds MaxValue or is a wrong address or name
	BadTTL       Refusal = "bad_ttl"       // outside MinTTL to MaxTTL
	FutureSeq    Refusal = "future_seq"    // signed later than now
	Expired      Refusal = "expired"       // not_after has passed
	LongLived    Refusal = "long_lived"    // not_after is more than MaxLife away
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
		{Oversize, status.BodyCap, "the envelope has more than 2 KiB"},
		{Unsigned, status.BadSignature, "it is not an envelope"},
		{WrongType, status.BadSignature, "the envelope has another type"},
		{BadSignature, status.BadSignature, "the signature does not verify"},
		{Malformed, status.BadRequest, "it is not the deterministic CBOR of a name record"},
		{BadZone, status.BadRequest, "its zone is not an Ed25519 key"},
		{ForeignKey, status.BadSignature, "it is not signed with the key of its zone"},
		{BadLabel, status.BadRequest, "its label is not in normal form"},
		{BadValue, status.BadRequest, "its value exceeds 1 KiB, or is a malformed address or name"},
		{BadTTL, status.BadRequest, "its ttl is not between 5 s and 24 h"},
		{FutureSeq, status.Stale, "its seq is more than 2 minutes ahead"},
		{Expired, status.Stale, "it has expired"},
		{LongLived, status.Stale, "it ends more than 30 days, plus 2 minutes for clocks that differ, from now"},
	}
}

// outcomeOf maps every Refusal to its outcome (SPEC §3).
var outcomeOf = func() map[Refusal]status.Outcome {
	m := map[Refusal]status.Outcome{}
	for _, r := range Refusals() {
		m[r.Refusal] = r.Outcome
	}
	return m
}()

// RecordError reports a refused name record.
type RecordError = record.RefusedError[Refusal]

func refuse(r Refusal, err error) error {
	return &RecordError{Kind: "name record", Refusal: r, Outcome: outcomeOf[r], Err: err}
}
