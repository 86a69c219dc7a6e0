package record

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/libp2p/go-libp2p/core/crypto"
	libp2precord "github.com/libp2p/go-libp2p/core/record"
)

// Kind is a type of signed payload.
type Kind struct {
	domain string
	codec  []byte
}

// KindOf returns the kind with the given name in OAP1 §11.
func KindOf(name string) Kind {
	return Kind{domain: "allium-" + name, codec: []byte("/allium/" + name + "/1")}
}

// KindLike returns the kind of a libp2p record.
func KindLike(r libp2precord.Record) Kind { return Kind{domain: r.Domain(), codec: r.Codec()} }

// The errors of Open and Peek.
var (
	ErrUnsigned  = errors.New("not a signed envelope")
	ErrType      = errors.New("the envelope has another type")
	ErrSignature = errors.New("the signature is invalid")
)

// Seal returns the payload in an envelope signed with key.
func (k Kind) Seal(key crypto.PrivKey, payload []byte) ([]byte, error) {
	e, err := libp2precord.Seal(&content{k, payload}, key)
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	return e.Marshal()
}

// Open verifies an envelope of this kind. It returns the payload and the key that signed it.
// The error is ErrUnsigned, ErrType or ErrSignature.
func (k Kind) Open(raw []byte) (payload []byte, signer crypto.PubKey, err error) {
	c := content{kind: k}
	e, err := libp2precord.ConsumeTypedEnvelope(raw, &c)
	switch {
	case e == nil:
		return nil, nil, fmt.Errorf("%w: %w", ErrUnsigned, err)
	case !bytes.Equal(e.PayloadType, k.codec):
		return nil, nil, fmt.Errorf("%w: payload type %q", ErrType, clip(e.PayloadType))
	case err != nil:
		return nil, nil, fmt.Errorf("%w: %w", ErrSignature, err)
	}
	return c.payload, e.PublicKey, nil
}

// Peek is Open without the check of the signature. It is for envelopes that were verified
// before, and to decide whether verification is worthwhile.
func (k Kind) Peek(raw []byte) (payload []byte, claimed crypto.PubKey, err error) {
	e, err := libp2precord.UnmarshalEnvelope(raw)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrUnsigned, err)
	}
	if !bytes.Equal(e.PayloadType, k.codec) {
		return nil, nil, fmt.Errorf("%w: payload type %q", ErrType, clip(e.PayloadType))
	}
	return e.RawPayload, e.PublicKey, nil
}

// clip shortens text from a stranger for an error.
func clip(p []byte) []byte { return p[:min(len(p), 64)] }

// content is a record whose payload stays encoded, so that Open can tell an invalid signature
// from an invalid payload.
type content struct {
	kind    Kind
	payload []byte
}

// Domain implements [libp2precord.Record].
func (c *content) Domain() string { return c.kind.domain }

// Codec implements [libp2precord.Record].
func (c *content) Codec() []byte { return c.kind.codec }

// MarshalRecord implements [libp2precord.Record].
func (c *content) MarshalRecord() ([]byte, error) { return c.payload, nil }

// UnmarshalRecord implements [libp2precord.Record].
func (c *content) UnmarshalRecord(p []byte) error { c.payload = p; return nil }
