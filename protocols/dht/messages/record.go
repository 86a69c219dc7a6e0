package messages

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	libp2precord "github.com/libp2p/go-libp2p/core/record"

	"allium/protocols/b3"
	"allium/protocols/record"
)

// The envelope type of a provider record (OAP1 §11).
const recordDomain = "allium-provider"

var recordType = []byte("/allium/provider/1")

// Record is a provider's statement that it has an object (OAP1 §11).
type Record struct {
	Root     b3.Root
	Provider peer.ID
	Seq      uint64    // of two records for the same provider and object, the higher is valid
	NotAfter time.Time // end of validity, in whole seconds
}

// wireRecord is the signed payload (OAP1 §11).
type wireRecord struct {
	Multihash []byte `cbor:"1,keyasint"`
	Provider  []byte `cbor:"2,keyasint"`
	Seq       uint64 `cbor:"3,keyasint"`
	NotAfter  uint64 `cbor:"4,keyasint"`
}

// Domain implements [libp2precord.Record].
func (*Record) Domain() string { return recordDomain }

// Codec implements [libp2precord.Record].
func (*Record) Codec() []byte { return recordType }

// MarshalRecord implements [libp2precord.Record].
func (r *Record) MarshalRecord() ([]byte, error) {
	if r.NotAfter.Unix() < 0 {
		return nil, errors.New("not_after is before 1970")
	}
	return canonical.Marshal(wireRecord{
		Multihash: r.Root.Multihash(),
		Provider:  []byte(r.Provider),
		Seq:       r.Seq,
		NotAfter:  uint64(r.NotAfter.Unix()),
	})
}

// UnmarshalRecord implements [libp2precord.Record]. It refuses an encoding that is not
// deterministic.
func (r *Record) UnmarshalRecord(p []byte) error {
	var w wireRecord
	if err := canonical.Unmarshal(p, &w); err != nil {
		return err
	}
	root, err := b3.FromMultihash(w.Multihash)
	if err != nil {
		return err
	}
	if !bytes.Equal(root.Multihash(), w.Multihash) {
		return record.ErrNotCanonical
	}
	id, err := ParsePeerID(w.Provider)
	if err != nil {
		return err
	}
	if w.NotAfter > math.MaxInt64/2 {
		return fmt.Errorf("not_after is %d", w.NotAfter)
	}
	*r = Record{Root: root, Provider: id, Seq: w.Seq, NotAfter: time.Unix(int64(w.NotAfter), 0)}
	return nil
}

// ParsePeerID parses the binary form of a peer ID, of at most 64 bytes.
func ParsePeerID(p []byte) (peer.ID, error) {
	if len(p) > maxPeerID {
		return "", fmt.Errorf("peer ID has %d bytes, more than %d", len(p), maxPeerID)
	}
	return peer.IDFromBytes(p)
}

// Sealed is a verified record with its signed form and the signed addresses of its provider (OAP1 §11).
type Sealed struct {
	Record
	Addrs      peer.PeerRecord
	Envelope   []byte // of Record
	PeerRecord []byte // the envelope of Addrs
}

// Size returns the bytes that a record takes in a response.
func (s *Sealed) Size() int { return len(s.Envelope) + len(s.PeerRecord) + 8 }

// Seal signs a record and the provider's addresses. It drops the last addresses until the
// peer record has at most MaxPeerRecord bytes.
func Seal(key crypto.PrivKey, r Record, addrs *peer.PeerRecord) (Sealed, error) {
	env, err := sealEnvelope(&r, key)
	if err != nil {
		return Sealed{}, err
	}
	own := *addrs
	for {
		pr, err := sealEnvelope(&own, key)
		if err != nil {
			return Sealed{}, err
		}
		if len(pr) <= MaxPeerRecord {
			return Sealed{Record: r, Addrs: own, Envelope: env, PeerRecord: pr}, nil
		}
		own.Addrs = own.Addrs[:len(own.Addrs)-1]
	}
}

func sealEnvelope(r libp2precord.Record, key crypto.PrivKey) ([]byte, error) {
	payload, err := r.MarshalRecord()
	if err != nil {
		return nil, fmt.Errorf("encode record: %w", err)
	}
	raw, err := record.KindLike(r).Seal(key, payload)
	if err != nil {
		return nil, fmt.Errorf("sign record: %w", err)
	}
	return raw, nil
}

// Open verifies a record for root and its peer record at time now. It limits NotAfter to
// MaxLifetime from now. The error is a *[RecordError].
func Open(envelope, peerRecord []byte, root b3.Root, now time.Time) (Sealed, error) {
	s := Sealed{Envelope: envelope, PeerRecord: peerRecord}
	if len(envelope) > MaxEnvelope || len(peerRecord) > MaxPeerRecord {
		return s, Refuse(Oversize, fmt.Errorf("envelope has %d bytes, peer record %d", len(envelope), len(peerRecord)))
	}
	signer, err := openEnvelope(envelope, &s.Record)
	if err != nil {
		return s, err
	}
	switch {
	case !s.Provider.MatchesPublicKey(signer):
		return s, Refuse(WrongProvider, nil)
	case s.Root != root:
		return s, Refuse(WrongKey, nil)
	case s.NotAfter.Before(now):
		return s, Refuse(Expired, nil)
	case s.FutureDated(now):
		return s, Refuse(FutureDated, nil)
	}
	s.NotAfter = ClampLife(s.NotAfter, now)
	signer, err = openEnvelope(peerRecord, &s.Addrs)
	if err != nil {
		return s, Refuse(BadPeerRecord, err)
	}
	if s.Addrs.PeerID != s.Provider || !s.Provider.MatchesPublicKey(signer) {
		return s, Refuse(BadPeerRecord, errors.New("it belongs to another peer"))
	}
	return s, nil
}

// FutureDated reports whether r ends later than any record may (OAP1 §13.14).
func (r *Record) FutureDated(now time.Time) bool {
	return r.NotAfter.After(now.Add(MaxLifetime + ClockSkew))
}

// ClampLife returns notAfter, or MaxLifetime from now if that is earlier (OAP1 §13.14).
func ClampLife(notAfter, now time.Time) time.Time {
	if latest := now.Add(MaxLifetime); notAfter.After(latest) {
		return latest
	}
	return notAfter
}

// openEnvelope verifies an envelope of r's type, decodes its payload into r and returns
// the signer's key.
func openEnvelope(raw []byte, r libp2precord.Record) (crypto.PubKey, error) {
	payload, signer, err := record.KindLike(r).Open(raw)
	switch {
	case errors.Is(err, record.ErrUnsigned):
		return nil, Refuse(Unsigned, err)
	case errors.Is(err, record.ErrType):
		return nil, Refuse(WrongType, err)
	case err != nil:
		return nil, Refuse(BadSignature, err)
	}
	if err := r.UnmarshalRecord(payload); err != nil {
		return nil, Refuse(Malformed, err)
	}
	return signer, nil
}
