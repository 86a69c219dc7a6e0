// Package keyfile encodes Ed25519 private keys for files. The text is one line: base64 of the
// libp2p private key protobuf, as other libp2p programs write it. Text that was changed or cut
// is never decoded to another key.
package keyfile

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/libp2p/go-libp2p/core/crypto"
)

// MaxBytes is the most bytes of a text; Encode returns 93.
const MaxBytes = 4 << 10

// Encode returns the text of a key.
func Encode(key crypto.PrivKey) ([]byte, error) {
	pb, err := crypto.MarshalPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return append(base64.StdEncoding.AppendEncode(nil, pb), '\n'), nil
}

// Decode parses the result of Encode, with blanks around it. The error never quotes the text.
func Decode(text []byte) (crypto.PrivKey, error) {
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("more than %d bytes", MaxBytes)
	}
	text = bytes.TrimSpace(text)
	if len(text) == 0 {
		return nil, errors.New("it is empty")
	}
	pb, err := base64.StdEncoding.Strict().DecodeString(string(text))
	if err != nil {
		return nil, errors.New("not base64")
	}
	key, err := crypto.UnmarshalPrivateKey(pb)
	if err != nil {
		return nil, errors.New("not a libp2p private key")
	}
	if key.Type() != crypto.Ed25519 {
		return nil, fmt.Errorf("a key of type %s, not Ed25519", key.Type())
	}
	return key, whole(key, pb)
}

// whole returns an error if key, decoded from pb, is not as it was written. It derives the
// public half from the secret half and compares it with the one in the file. A node with a
// wrong public half would run, but no peer could authenticate it.
func whole(key crypto.PrivKey, pb []byte) error {
	secret, err := key.Raw()
	if err != nil {
		return err
	}
	if len(secret) != ed25519.PrivateKeySize ||
		!bytes.Equal(ed25519.NewKeyFromSeed(secret[:ed25519.SeedSize]), secret) {
		return errors.New("its public half does not belong to its secret one: it is damaged")
	}
	again, err := crypto.MarshalPrivateKey(key)
	if err != nil {
		return err
	}
	if !bytes.Equal(again, pb) {
		return errors.New("it is not as it was written: it is damaged")
	}
	return nil
}
