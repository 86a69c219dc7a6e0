package record

import (
	"bytes"
	"errors"
	"maps"

	"github.com/fxamacker/cbor/v2"
)

// Codec encodes and decodes messages. It is immutable and safe for concurrent use.
type Codec struct {
	enc cbor.EncMode
	dec cbor.DecMode
}

// NewCodec returns a codec that refuses arrays of more than maxArray elements before it
// allocates memory for them. It panics if maxArray is below 16, the minimum of the CBOR
// library. Callers pass constants.
func NewCodec(maxArray int) Codec {
	enc := cbor.CoreDetEncOptions()
	enc.NilContainers = cbor.NilContainerAsEmpty // the messages do not use null
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

// ErrNotCanonical reports a message that is not in its one deterministic encoding.
var ErrNotCanonical = errors.New("not deterministic CBOR")

// Marshal encodes v.
func (c Codec) Marshal(v any) ([]byte, error) { return c.enc.Marshal(v) }

// Unmarshal decodes p into v and checks that v encodes to p again. It refuses unknown
// members, duplicates, tags and indefinite lengths.
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

// UnmarshalOpen is [Codec.Unmarshal] for a map that later versions may extend: members whose keys are
// negative or above lastKey are skipped. They must be deterministic CBOR too.
func (c Codec) UnmarshalOpen(p []byte, v any, lastKey int64) error {
	var all map[int64]any
	if err := c.dec.Unmarshal(p, &all); err != nil {
		return err
	}
	if again, err := c.enc.Marshal(all); err != nil || !bytes.Equal(p, again) {
		return ErrNotCanonical
	}
	maps.DeleteFunc(all, func(key int64, _ any) bool { return key < 0 || key > lastKey })
	known, err := c.enc.Marshal(all)
	if err != nil {
		return err
	}
	return c.Unmarshal(known, v)
}
