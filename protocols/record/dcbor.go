package record

import (
	"bytes"
	"errors"

	"github.com/fxamacker/cbor/v2"
)

// Codec encodes and decodes messages. It is immutable.
type Codec struct {
	enc cbor.EncMode
	dec cbor.DecMode
}

// NewCodec returns a codec that refuses arrays of more than maxArray elements
// before it allocates memory for them. It panics if maxArray is below 16, which
// the CBOR library does not allow: callers pass constants.
func NewCodec(maxArray int) Codec {
	enc := cbor.CoreDetEncOptions()
	enc.NilContainers = cbor.NilContainerAsEmpty // null has no place here
	return Codec{
		enc: must(enc.EncMode()),
		dec: must(cbor.DecOptions{
			DupMapKey:         cbor.DupMapKeyEnforcedAPF,
			IndefLength:       cbor.IndefLengthForbidden,
			TagsMd:            cbor.TagsForbidden,
			ExtraReturnErrors: cbor.ExtraDecErrorUnknownField,
			MaxNestedLevels:   8,
			MaxArrayElements:  maxArray,
			MaxMapPairs:       16,
		}.DecMode()),
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// ErrNotCanonical is that of several encodings of a message the one was used
// that is not its form.
var ErrNotCanonical = errors.New("not deterministic CBOR")

// Marshal encodes v.
func (c Codec) Marshal(v any) ([]byte, error) { return c.enc.Marshal(v) }

// Unmarshal decodes p into v, and demands that v encodes to p again. Members
// that v has not, duplicates, tags and indefinite lengths are errors.
func (c Codec) Unmarshal(p []byte, v any) error {
	if err := c.dec.Unmarshal(p, v); err != nil {
		return err
	}
	again, err := c.enc.Marshal(v)
	if err != nil {
		return err
	}
	if !bytes.Equal(p, again) {
		return ErrNotCanonical
	}
	return nil
}
