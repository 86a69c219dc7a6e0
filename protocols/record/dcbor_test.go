package record_test

import (
	"bytes"
	"errors"
	"testing"

	"allium/protocols/record"
)

type message struct {
	N uint64   `cbor:"1,keyasint"`
	L []uint64 `cbor:"2,keyasint,omitempty"`
	B []byte   `cbor:"3,keyasint"`
}

var codec = record.NewCodec(16)

// TestOneForm: what is not the form of a message is refused.
func TestOneForm(t *testing.T) {
	good, err := codec.Marshal(message{N: 1})
	if err != nil || !bytes.Equal(good, []byte{0xa2, 1, 1, 3, 0x40}) {
		t.Fatalf("%x, %v", good, err)
	}
	var m message
	if err := codec.Unmarshal(good, &m); err != nil || m.N != 1 {
		t.Errorf("%+v, %v", m, err)
	}
	long, err := codec.Marshal(message{L: make([]uint64, 17)})
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string][]byte{
		"nothing":           {},
		"trailing":          append(bytes.Clone(good), 0),
		"a longer number":   {0xa2, 1, 0x18, 1, 3, 0x40},
		"another order":     {0xa2, 3, 0x40, 1, 1},
		"null":              {0xa2, 1, 1, 3, 0xf6},
		"a member unknown":  {0xa3, 1, 1, 3, 0x40, 9, 1},
		"a member twice":    {0xa3, 1, 1, 1, 1, 3, 0x40},
		"an omitted member": {0xa3, 1, 1, 2, 0x80, 3, 0x40},
		"indefinite length": {0xbf, 1, 1, 3, 0x40, 0xff},
		"a tag":             {0xc1, 0xa2, 1, 1, 3, 0x40},
		"a long array":      long,
	} {
		if err := codec.Unmarshal(p, new(message)); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	if err := codec.Unmarshal([]byte{0xa2, 1, 0x18, 1, 3, 0x40},
		new(message)); !errors.Is(err, record.ErrNotCanonical) {
		t.Errorf("got %v", err)
	}
}

// FuzzUnmarshal: what is taken encodes to the same bytes.
func FuzzUnmarshal(f *testing.F) {
	f.Add([]byte{0xa2, 1, 1, 3, 0x40})
	f.Add([]byte{0xa3, 1, 1, 2, 0x81, 7, 3, 0x41, 9})
	f.Fuzz(func(t *testing.T, p []byte) {
		var m message
		if codec.Unmarshal(p, &m) != nil {
			return
		}
		again, err := codec.Marshal(m)
		if err != nil || !bytes.Equal(again, p) {
			t.Errorf("%x became %x, %v", p, again, err)
		}
	})
}
