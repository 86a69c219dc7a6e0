package dht

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

// Record is a provider's statement that it has an object.
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
	id, err := peerID(w.Provider)
	if err != nil {
		return err
	}
	if w.NotAfter > math.MaxInt64/2 {
		return fmt.Errorf("not_after is %d", w.NotAfter)
	}
	*r = Record{Root: root, Provider: id, Seq: w.Seq, NotAfter: time.Unix(int64(w.NotAfter), 0)}
	return nil
}

// peerID parses the binary form of a peer ID.
func peerID(p []byte) (peer.ID, error) {
	if len(p) > maxPeerID {
		return "", fmt.Errorf("peer ID has %d bytes, more than %d", len(p), maxPeerID)
	}
	return peer.IDFromBytes(p)
}

// sealed is a verified record with its signed form.
type sealed struct {
	Record
	source
	addrs      peer.PeerRecord
	envelope   []byte
	peerRecord []byte
}

// seal signs a record and the provider's addresses. It drops the last addresses until the
// peer record has at most maxPeerRecord bytes.
func seal(key crypto.PrivKey, r Record, addrs *peer.PeerRecord) (sealed, error) {
	env, err := sealEnvelope(&r, key)
	if err != nil {
		return sealed{}, err
	}
	own := *addrs
	for {
		pr, err := sealEnvelope(&own, key)
		if err != nil {
			return sealed{}, err
		}
		if len(pr) <= maxPeerRecord {
			return sealed{Record: r, addrs: own, envelope: env, peerRecord: pr}, nil
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

// openSealed verifies a record for root and its peer record at time now. It limits
// NotAfter to maxLifetime from now. The error is a *[RecordError].
func openSealed(envelope, peerRecord []byte, root b3.Root, now time.Time) (sealed, error) {
	s := sealed{envelope: envelope, peerRecord: peerRecord}
	if len(envelope) > maxEnvelope || len(peerRecord) > maxPeerRecord {
		return s, refuse(Oversize, fmt.Errorf("envelope has %d bytes, peer record %d", len(envelope), len(peerRecord)))
	}
	signer, err := openEnvelope(envelope, &s.Record)
	if err != nil {
		return s, err
	}
	switch {
	case !s.Provider.MatchesPublicKey(signer):
		return s, refuse(WrongProvider, nil)
	case s.Root != root:
		return s, refuse(WrongKey, nil)
	case s.NotAfter.Before(now):
		return s, refuse(Expired, nil)
	case futureDated(s.Record, now):
		return s, refuse(FutureDated, nil)
	}
	s.NotAfter = clampLife(s.NotAfter, now)
	signer, err = openEnvelope(peerRecord, &s.addrs)
	if err != nil {
		return s, refuse(BadPeerRecord, err)
	}
	if s.addrs.PeerID != s.Provider || !s.Provider.MatchesPublicKey(signer) {
		return s, refuse(BadPeerRecord, errors.New("it belongs to another peer"))
	}
	return s, nil
}

// futureDated reports whether r ends later than any record may.
func futureDated(r Record, now time.Time) bool {
	return r.NotAfter.After(now.Add(maxLifetime + clockSkew))
}

// openEnvelope verifies an envelope of r's type, decodes its payload into r and returns
// the signer's key.
func openEnvelope(raw []byte, r libp2precord.Record) (crypto.PubKey, error) {
	payload, signer, err := record.KindLike(r).Open(raw)
	switch {
	case errors.Is(err, record.ErrUnsigned):
		return nil, refuse(Unsigned, err)
	case errors.Is(err, record.ErrType):
		return nil, refuse(WrongType, err)
	case err != nil:
		return nil, refuse(BadSignature, err)
	}
	if err := r.UnmarshalRecord(payload); err != nil {
		return nil, refuse(Malformed, err)
	}
	return signer, nil
}
