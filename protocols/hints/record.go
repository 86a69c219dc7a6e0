package hints

import (
	"bytes"
	"errors"
	"math"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"allium/protocols/b3"
	"allium/protocols/record"
	"allium/protocols/status"
)

// signed is the record kind of an announcement.
var signed = record.KindOf("announce")

// canonical encodes announcements and the messages of a comparison.
var canonical = record.NewCodec(maxItems)

// Bounds of an announcement, fixed by its format.
const (
	maxRoots    = 512      // objects
	maxAddrs    = 8        // addresses of the provider
	maxAddr     = 128      // bytes of one
	maxPeerID   = 64       // bytes
	maxEnvelope = 20 << 10 // bytes, signed: maxRoots and maxAddrs fit

	maxLifetime = 24 * time.Hour
	clockSkew   = 2 * time.Minute // how far the provider's clock may be ahead
)

// announcement is a provider's claim that it has some objects.
type announcement struct {
	slot
	seq      uint64
	notAfter time.Time // whole seconds
	roots    []byte    // 32 bytes each, in ascending order
	addrs    []ma.Multiaddr

	id       id
	envelope []byte

	origin string // IP group of the peer that brought it, see memory; empty: this node
}

// slot identifies a provider's batch. Of its announcements, the one with the highest seq is valid.
type slot struct {
	provider peer.ID
	batch    uint64
}

// id identifies an announcement: the first half of its payload's BLAKE3.
type id [16]byte

// wire is the signed payload.
type wire struct {
	Provider []byte   `cbor:"1,keyasint"`
	Batch    uint64   `cbor:"2,keyasint"`
	Seq      uint64   `cbor:"3,keyasint"`
	NotAfter uint64   `cbor:"4,keyasint"` // seconds since 1970
	Roots    []byte   `cbor:"5,keyasint"`
	Addrs    [][]byte `cbor:"6,keyasint"`
}

// count returns the number of objects.
func (a *announcement) count() int { return len(a.roots) / b3.Size }

// root returns the i-th object.
func (a *announcement) root(i int) b3.Root { return b3.Root(a.roots[i*b3.Size:]) }

// each calls f for each object.
func (a *announcement) each(f func(b3.Root)) {
	for i := range a.count() {
		f(a.root(i))
	}
}

// newer reports whether a replaces o, of the same slot. If both have the same seq, which only a
// faulty provider signs, all nodes choose the same.
func (a *announcement) newer(o *announcement) bool {
	return a.seq > o.seq || a.seq == o.seq && bytes.Compare(a.id[:], o.id[:]) > 0
}

// seal signs a. It sets id and envelope.
func (a *announcement) seal(key crypto.PrivKey) error {
	w := wire{
		Provider: []byte(a.provider),
		Batch:    a.batch,
		Seq:      a.seq,
		NotAfter: uint64(a.notAfter.Unix()),
		Roots:    a.roots,
		Addrs:    [][]byte{},
	}
	for _, addr := range a.addrs {
		if p := addr.Bytes(); len(p) <= maxAddr && len(w.Addrs) < maxAddrs {
			w.Addrs = append(w.Addrs, p)
		}
	}
	payload, err := canonical.Marshal(w)
	if err != nil {
		return err
	}
	a.id = idOf(payload)
	a.envelope, err = signed.Seal(key, payload)
	return err
}

func idOf(payload []byte) id {
	sum := b3.Sum(payload)
	return id(sum[:])
}

// verify opens an announcement. The errors are status.BodyCap (too long), BadSignature (not signed,
// or not by the provider), BadRequest (not an announcement) and Stale (expired, or valid for too
// long).
func verify(raw []byte, now time.Time) (*announcement, error) {
	if err := bounded(raw); err != nil {
		return nil, err
	}
	payload, signer, err := signed.Open(raw)
	if err != nil {
		return nil, status.Errorf(status.BadSignature, "announce: %w", err)
	}
	return read(raw, payload, signer, now)
}

// trust is verify without the check of the signature, for announcements that were verified before or
// will be. With status.Stale it also returns the announcement.
func trust(raw []byte, now time.Time) (*announcement, error) {
	if err := bounded(raw); err != nil {
		return nil, err
	}
	payload, signer, err := signed.Peek(raw)
	if err != nil {
		return nil, status.Errorf(status.BadSignature, "announce: %w", err)
	}
	return read(raw, payload, signer, now)
}

func bounded(raw []byte) error {
	if len(raw) > maxEnvelope {
		return status.Errorf(status.BodyCap, "announce: %d bytes, more than %d", len(raw), maxEnvelope)
	}
	return nil
}

// read decodes a payload that signer signed and checks it. With status.Stale it also returns the
// announcement.
func read(raw, payload []byte, signer crypto.PubKey, now time.Time) (*announcement, error) {
	a, err := decode(payload)
	if err != nil {
		return nil, status.Errorf(status.BadRequest, "announce: %w", err)
	}
	a.envelope = raw
	switch {
	case !a.provider.MatchesPublicKey(signer):
		return nil, status.Errorf(status.BadSignature, "announce: signed by another than the provider")
	case !a.notAfter.After(now):
		return a, status.Errorf(status.Stale, "announce: expired")
	case a.notAfter.After(now.Add(maxLifetime + clockSkew)):
		return a, status.Errorf(status.Stale, "announce: it would live for more than %s", maxLifetime)
	}
	return a, nil
}

// decode decodes a payload and refuses one that is not canonical.
func decode(payload []byte) (*announcement, error) {
	var w wire
	if err := canonical.Unmarshal(payload, &w); err != nil {
		return nil, err
	}
	if len(w.Provider) > maxPeerID {
		return nil, errors.New("a long peer id")
	}
	provider, err := peer.IDFromBytes(w.Provider)
	if err != nil {
		return nil, err
	}
	if w.NotAfter > math.MaxInt64/2 {
		return nil, errors.New("it never ends")
	}
	a := &announcement{
		slot: slot{
			provider,
			w.Batch,
		}, seq: w.Seq, notAfter: time.Unix(int64(w.NotAfter), 0), roots: w.Roots, id: idOf(payload),
	}
	if err := ascending(w.Roots); err != nil {
		return nil, err
	}
	if len(w.Addrs) > maxAddrs {
		return nil, errors.New("too many addresses")
	}
	for _, p := range w.Addrs {
		if len(p) > maxAddr {
			return nil, errors.New("a long address")
		}
		addr, err := ma.NewMultiaddrBytes(p)
		if err != nil {
			return nil, err
		}
		if len(addr) == 0 {
			return nil, errors.New("an empty address")
		}
		a.addrs = append(a.addrs, addr)
	}
	return a, nil
}

// ascending checks that roots is a sorted list without duplicates.
func ascending(roots []byte) error {
	if len(roots)%b3.Size != 0 || len(roots) > maxRoots*b3.Size {
		return errors.New("no list of at most 512 objects")
	}
	for i := b3.Size; i < len(roots); i += b3.Size {
		if bytes.Compare(roots[i-b3.Size:i], roots[i:i+b3.Size]) >= 0 {
			return errors.New("objects out of order")
		}
	}
	return nil
}
