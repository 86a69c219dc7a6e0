package name

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"

	"allium/protocols/record"
)

// Record says what a name stands for. Records are comparable when their times are in UTC, as
// those of this package are.
type Record struct {
	Name     Name
	Seq      uint64 // Unix milliseconds at signing, see [NextSeq]; the record with the higher one is in force
	Value    Value
	NotAfter time.Time     // end of validity, in whole seconds
	TTL      time.Duration // how long caches may keep the record, in whole seconds
}

// Signed is a record with the envelope that proves it.
type Signed struct {
	Record
	Envelope []byte // at most MaxEnvelope bytes; shared, so nobody changes it
}

// kind is the record kind of names.
var kind = record.KindOf("name")

// canonical encodes records. 16 is the least limit of a codec; records have no arrays.
var canonical = record.NewCodec(16)

// wireRecord is the signed payload (OAP1 §11).
type wireRecord struct {
	Zone     []byte `cbor:"1,keyasint"` // binary peer ID
	Label    string `cbor:"2,keyasint"`
	Seq      uint64 `cbor:"3,keyasint"`
	Value    string `cbor:"4,keyasint"`
	NotAfter uint64 `cbor:"5,keyasint"` // seconds since 1970
	TTL      uint64 `cbor:"6,keyasint"` // seconds
}

// NextSeq returns the seq for a record that is signed at now, where last is the highest seq of
// its name so far, 0 for none. It is above last even if the clock was set back.
func NextSeq(last uint64, now time.Time) uint64 {
	return max(uint64(max(now.UnixMilli(), 0)), last+1)
}

// Sign signs r with the key of its zone. It refuses, with a *[RecordError], a record that
// [Open] would refuse at now.
func Sign(key crypto.PrivKey, r Record, now time.Time) (Signed, error) {
	if !r.Name.Zone.Signs(key.GetPublic()) {
		return Signed{}, refuse(ForeignKey, nil)
	}
	if r.NotAfter.Nanosecond() != 0 || r.TTL%time.Second != 0 || r.NotAfter.Unix() < 0 {
		return Signed{}, refuse(Malformed, errors.New("not_after and ttl are whole seconds since 1970"))
	}
	if err := r.Check(now); err != nil {
		return Signed{}, err
	}
	payload, err := canonical.Marshal(wireRecord{
		Zone:     []byte(r.Name.Zone.ID()),
		Label:    r.Name.Label.s,
		Seq:      r.Seq,
		Value:    r.Value.s,
		NotAfter: uint64(r.NotAfter.Unix()),
		TTL:      uint64(r.TTL / time.Second),
	})
	if err != nil {
		return Signed{}, fmt.Errorf("encode the record: %w", err)
	}
	raw, err := kind.Seal(key, payload)
	if err != nil {
		return Signed{}, fmt.Errorf("sign the record: %w", err)
	}
	return Verify(raw)
}

// Open verifies a signed record and checks it at now. The error is a *[RecordError]. With
// Expired, the record is returned too, for callers that may use it.
func Open(envelope []byte, now time.Time) (Signed, error) {
	s, err := Verify(envelope)
	if err != nil {
		return Signed{}, err
	}
	err = s.Check(now)
	var refused *RecordError
	if errors.As(err, &refused) && refused.Refusal != Expired {
		return Signed{}, err
	}
	return s, err
}

// Verify is [Open] without the checks of seq and not_after, which depend on the time. It keeps
// the envelope.
func Verify(envelope []byte) (Signed, error) {
	if len(envelope) > MaxEnvelope {
		return Signed{}, refuse(Oversize, fmt.Errorf("the envelope has %d bytes", len(envelope)))
	}
	payload, signer, err := kind.Open(envelope)
	return decode(envelope, payload, signer, err)
}

// Restore is [Verify] without the check of the signature, for envelopes that this node verified
// before and kept.
func Restore(envelope []byte) (Signed, error) {
	if len(envelope) > MaxEnvelope {
		return Signed{}, refuse(Oversize, fmt.Errorf("the envelope has %d bytes", len(envelope)))
	}
	payload, signer, err := kind.Peek(envelope)
	return decode(envelope, payload, signer, err)
}

// decode returns the record of an opened envelope.
func decode(envelope, payload []byte, signer crypto.PubKey, err error) (Signed, error) {
	switch {
	case errors.Is(err, record.ErrUnsigned):
		return Signed{}, refuse(Unsigned, err)
	case errors.Is(err, record.ErrType):
		return Signed{}, refuse(WrongType, err)
	case err != nil:
		return Signed{}, refuse(BadSignature, err)
	}
	var w wireRecord
	if err := canonical.Unmarshal(payload, &w); err != nil {
		return Signed{}, refuse(Malformed, err)
	}
	if w.NotAfter > math.MaxInt64/2 {
		return Signed{}, refuse(Malformed, fmt.Errorf("not_after is %d", w.NotAfter))
	}
	zone, err := zoneFromID(string(w.Zone))
	if err != nil {
		return Signed{}, refuse(BadZone, err)
	}
	if !zone.Signs(signer) {
		return Signed{}, refuse(ForeignKey, nil)
	}
	label, err := ParseLabel(w.Label)
	if err == nil && label.s != w.Label {
		err = fmt.Errorf("its normal form is %q", label.s)
	}
	if err != nil {
		return Signed{}, refuse(BadLabel, err)
	}
	value, err := ParseValue(w.Value)
	if err != nil {
		return Signed{}, refuse(BadValue, err)
	}
	if w.TTL < uint64(MinTTL/time.Second) || w.TTL > uint64(MaxTTL/time.Second) {
		return Signed{}, refuse(BadTTL, fmt.Errorf("it is %d s", w.TTL))
	}
	return Signed{
		Record: Record{
			Name:     Name{label, zone},
			Seq:      w.Seq,
			Value:    value,
			NotAfter: time.Unix(int64(w.NotAfter), 0).UTC(),
			TTL:      time.Duration(w.TTL) * time.Second,
		},
		Envelope: envelope,
	}, nil
}

// Check returns a *[RecordError] unless the record is complete and in force at now.
func (r Record) Check(now time.Time) error {
	switch {
	case r.Name.Zone.IsZero():
		return refuse(BadZone, errNotEd25519)
	case r.Name.Label.IsZero():
		return refuse(BadLabel, nil)
	case r.TTL < MinTTL || r.TTL > MaxTTL:
		return refuse(BadTTL, fmt.Errorf("it is %s", r.TTL))
	case r.Seq > uint64(max(now.Add(ClockSkew).UnixMilli(), 0)):
		return refuse(FutureSeq, fmt.Errorf("it is %d", r.Seq))
	case r.NotAfter.Before(now):
		return refuse(Expired, fmt.Errorf("it ended at %s", r.NotAfter.UTC().Format(time.RFC3339)))
	case r.NotAfter.After(now.Add(MaxLife + ClockSkew)):
		return refuse(LongLived, fmt.Errorf("it ends at %s", r.NotAfter.UTC().Format(time.RFC3339)))
	}
	return nil
}
