package dht

import (
	"bytes"
	"errors"

	"github.com/fxamacker/cbor/v2"
)

// Deterministic CBOR (RFC 8949 §4.2.1). Both modes are immutable.
var (
	encMode = must(encOptions().EncMode())
	decMode = must(cbor.DecOptions{
		DupMapKey:         cbor.DupMapKeyEnforcedAPF,
		IndefLength:       cbor.IndefLengthForbidden,
		TagsMd:            cbor.TagsForbidden,
		ExtraReturnErrors: cbor.ExtraDecErrorUnknownField,
		MaxNestedLevels:   8,
		MaxArrayElements:  max(maxProviders, maxCloser),
		MaxMapPairs:       16,
	}.DecMode())
)

// encOptions writes nil byte strings as empty ones: null has no place here.
func encOptions() cbor.EncOptions {
	o := cbor.CoreDetEncOptions()
	o.NilContainers = cbor.NilContainerAsEmpty
	return o
}

// must is for the two modes above: their options are constants.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

var errNotCanonical = errors.New("not deterministic CBOR")

// decodeStrict decodes p into v and demands that v encodes to p again: one
// message has one form, so nothing hides in an encoding (OAP1 §11).
func decodeStrict(p []byte, v any) error {
	if err := decMode.Unmarshal(p, v); err != nil {
		return err
	}
	again, err := encMode.Marshal(v)
	if err != nil {
		return err
	}
	if !bytes.Equal(p, again) {
		return errNotCanonical
	}
	return nil
}
