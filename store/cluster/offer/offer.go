// Package offer encodes what the members of a cluster tell each other: which space a node offers
// for copies, and where it is (OAP1.md §11). An [Offer] is signed by its node and sealed under
// every key of the node's capability ring, so only nodes with one of these keys can read it.
//
// Invariants: Open returns an offer only if a key of the ring sealed it, its node signed it, it
// is not expired and not valid for more than MaxLifetime. An offer of another cluster is told
// apart from a message that no cluster can have sent.
package offer

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/record"
	"allium/protocols/status"
)

// Topic is the gossip topic of sealed offers.
const Topic = "/allium/1/offers"

// The bounds of an offer.
const (
	MaxLifetime = 10 * time.Minute
	MaxRegion   = 32 // bytes
	MaxDomain   = 64 // bytes
	clockSkew   = 2 * time.Minute
	maxEnvelope = 1 << 10
	maxPeerID   = 64
	maxBytes    = 1 << 60 // of capacity and free space: more than any node has
)

var (
	signed    = record.KindOf("offer")
	canonical = record.NewCodec(0)
)

// Offer is the space that a member offers.
type Offer struct {
	Peer     peer.ID
	Seq      uint64    // Unix milliseconds at signing, or the last one + 1
	NotAfter time.Time // whole seconds; at most MaxLifetime after signing
	Capacity uint64    // bytes in all
	Free     uint64    // bytes that are left
	Rate     uint64    // bytes per second that it takes; 0: not said
	Region   string    // at most MaxRegion bytes
	Domain   string    // host, rack, volume or bucket; at most MaxDomain bytes
	Draining bool      // its copies are handed over; it takes none
}

// wire is the signed payload.
type wire struct {
	Peer     []byte `cbor:"1,keyasint"`
	Seq      uint64 `cbor:"2,keyasint"`
	NotAfter uint64 `cbor:"3,keyasint"` // seconds since 1970
	Capacity uint64 `cbor:"4,keyasint"`
	Free     uint64 `cbor:"5,keyasint"`
	Rate     uint64 `cbor:"6,keyasint"`
	Region   string `cbor:"7,keyasint"`
	Domain   string `cbor:"8,keyasint"`
	State    uint64 `cbor:"9,keyasint"` // 0 open, 1 draining
}

// CheckText returns bad_request if a region or domain is longer than limit, or has characters that
// are not printed.
func CheckText(what, s string, limit int) error {
	control := func(r rune) bool { return r < ' ' || r == 0x7f }
	if len(s) > limit || !utf8.ValidString(s) || strings.ContainsFunc(s, control) {
		return status.Errorf(status.BadRequest, "the %s %.80q: want at most %d bytes of printable text", what, s, limit)
	}
	return nil
}

// check returns bad_request if a field of o is out of its bounds.
func (o Offer) check() error {
	if o.Free > o.Capacity || o.Capacity > maxBytes || o.Rate > maxBytes {
		return status.Errorf(status.BadRequest, "an offer of %d free of %d bytes", o.Free, o.Capacity)
	}
	if err := CheckText("region", o.Region, MaxRegion); err != nil {
		return err
	}
	return CheckText("domain", o.Domain, MaxDomain)
}

// Sign returns o in an envelope that key signed. Its peer is that of the key.
func (o Offer) Sign(key crypto.PrivKey) ([]byte, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	id, err := peer.IDFromPrivateKey(key)
	if err != nil {
		return nil, err
	}
	w := wire{
		Peer: []byte(id), Seq: o.Seq, NotAfter: uint64(o.NotAfter.Unix()), Capacity: o.Capacity, Free: o.Free,
		Rate: o.Rate, Region: o.Region, Domain: o.Domain,
	}
	if o.Draining {
		w.State = 1
	}
	payload, err := canonical.Marshal(w)
	if err != nil {
		return nil, err
	}
	return signed.Seal(key, payload)
}

// Verify opens an envelope. Errors are body_cap (too long), bad_signature (not signed, or by
// another peer), bad_request (not an offer) and stale (expired, signed in the future, or valid
// for too long).
func Verify(envelope []byte, now time.Time) (Offer, error) {
	if len(envelope) > maxEnvelope {
		return Offer{}, status.Errorf(status.BodyCap, "an offer of %d bytes; the limit is %d",
			len(envelope), maxEnvelope)
	}
	payload, signer, err := signed.Open(envelope)
	if err != nil {
		return Offer{}, status.Errorf(status.BadSignature, "the offer is not valid: %w", err)
	}
	var w wire
	if err := canonical.Unmarshal(payload, &w); err != nil {
		return Offer{}, status.Errorf(status.BadRequest, "not an offer: %w", err)
	}
	if len(w.Peer) > maxPeerID || w.State > 1 || w.NotAfter > 1<<40 {
		return Offer{}, status.Errorf(status.BadRequest, "not an offer: a member is out of its bounds")
	}
	id, err := peer.IDFromBytes(w.Peer)
	if err != nil {
		return Offer{}, status.Errorf(status.BadRequest, "not an offer: %w", err)
	}
	if !id.MatchesPublicKey(signer) {
		return Offer{}, status.Errorf(status.BadSignature, "the offer of %s is signed by another peer", id)
	}
	o := Offer{
		Peer: id, Seq: w.Seq, NotAfter: time.Unix(int64(w.NotAfter), 0), Capacity: w.Capacity,
		Free: w.Free, Rate: w.Rate,
		Region: w.Region, Domain: w.Domain, Draining: w.State == 1,
	}
	if err := o.check(); err != nil {
		return Offer{}, err
	}
	left := o.NotAfter.Sub(now)
	if left <= 0 || left > MaxLifetime+clockSkew || w.Seq > uint64(now.Add(clockSkew).UnixMilli()) {
		return Offer{}, status.Errorf(status.Stale, "the offer of %s is valid until %s, and it is %s", id,
			o.NotAfter.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	return o, nil
}
