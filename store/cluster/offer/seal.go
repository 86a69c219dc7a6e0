package offer

import (
	"bytes"
	"crypto/cipher"
	"crypto/rand"
	"slices"

	"golang.org/x/crypto/chacha20poly1305"

	"allium/protocols/b3"
	"allium/protocols/capability"
	"allium/protocols/status"
)

// sealContext is the context of the derived keys that seal offers.
const sealContext = "allium cluster offers 1"

// A sealed offer is: version 1, the number of boxes, and the boxes, all of one length. A box is a
// tag that tells its key, a nonce, and the envelope encrypted with XChaCha20-Poly1305 and the tag as
// associated data.
const (
	version   = 1
	tagSize   = 8
	maxBoxes  = 64 // the keys of a ring
	boxExtra  = tagSize + chacha20poly1305.NonceSizeX + chacha20poly1305.Overhead
	maxSealed = 2 + maxBoxes*(maxEnvelope+boxExtra)
)

// Ring derives keys: a [capability.Ring], or the one that a node has in force.
type Ring interface {
	Derive(context string) []capability.Derived
}

// split returns the key of the cipher and the tag of a derived key.
func split(k capability.Derived) (cipher.AEAD, []byte, error) {
	aead, err := chacha20poly1305.NewX(k[:])
	if err != nil {
		return nil, nil, err
	}
	tag := b3.Sum(append(k[:len(k):len(k)], "tag"...))
	return aead, tag[:tagSize], nil
}

// Seal seals an envelope under every key of the ring. Errors are not_found for a ring without
// keys, and body_cap.
func Seal(envelope []byte, ring Ring) ([]byte, error) {
	keys := ring.Derive(sealContext)
	if len(keys) == 0 || len(keys) > maxBoxes {
		return nil, status.Errorf(status.NotFound, "the ring has %d keys; a cluster needs 1 to %d", len(keys), maxBoxes)
	}
	if len(envelope) > maxEnvelope {
		return nil, status.Errorf(status.BodyCap, "an offer of %d bytes; the limit is %d", len(envelope), maxEnvelope)
	}
	out := []byte{version, byte(len(keys))}
	for _, k := range keys {
		aead, tag, err := split(k)
		if err != nil {
			return nil, err
		}
		var nonce [chacha20poly1305.NonceSizeX]byte
		_, _ = rand.Read(nonce[:]) // never fails
		out = append(append(out, tag...), nonce[:]...)
		out = aead.Seal(out, nonce[:], envelope, tag)
	}
	return out, nil
}

// boxes returns the boxes of a sealed offer, or bad_request.
func boxes(sealed []byte) ([][]byte, error) {
	if len(sealed) < 2 || len(sealed) > maxSealed || sealed[0] != version || sealed[1] == 0 || sealed[1] > maxBoxes {
		return nil, status.Errorf(status.BadRequest, "not a sealed offer of version %d", version)
	}
	n, rest := int(sealed[1]), sealed[2:]
	size := len(rest) / n
	if size*n != len(rest) || size <= boxExtra || size > maxEnvelope+boxExtra {
		return nil, status.Errorf(status.BadRequest, "a sealed offer of %d bytes in %d boxes", len(rest), n)
	}
	return slices.Collect(slices.Chunk(rest, size)), nil
}

// Open returns the envelope of a sealed offer. ok is false if no key of the ring sealed it: it
// is for another cluster. Errors are bad_request, and bad_signature for a box that says it is under a key
// of the ring and is not.
func Open(sealed []byte, ring Ring) (envelope []byte, ok bool, err error) {
	list, err := boxes(sealed)
	if err != nil {
		return nil, false, err
	}
	for _, k := range ring.Derive(sealContext) {
		aead, tag, err := split(k)
		if err != nil {
			return nil, false, err
		}
		i := slices.IndexFunc(list, func(box []byte) bool { return bytes.Equal(box[:tagSize], tag) })
		if i < 0 {
			continue
		}
		nonce, body := list[i][tagSize:][:chacha20poly1305.NonceSizeX], list[i][tagSize+chacha20poly1305.NonceSizeX:]
		envelope, err = aead.Open(nil, nonce, body, tag)
		if err != nil {
			return nil, false, status.Errorf(status.BadSignature, "a sealed offer was changed")
		}
		return envelope, true, nil
	}
	return nil, false, nil
}
