package status_test

import (
	"testing"

	"allium/protocols/status"
)

func FuzzParseLookupID(f *testing.F) {
	for _, s := range []string{"", "00000000000000a1", "00000000000000A1", "ffffffffffffffff", "0000000000000000"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if id, ok := status.ParseLookupID(s); ok != (id != 0) || ok && id.String() != s {
			t.Errorf("%q is read as %q, %t", s, id, ok)
		}
	})
}
