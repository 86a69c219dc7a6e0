package disk

import (
	"bytes"
	"testing"
)

func FuzzFormat(f *testing.F) {
	f.Add(formatText(1))
	f.Add([]byte("allium store\nformat 01\n"))
	f.Fuzz(func(t *testing.T, p []byte) {
		v, err := parseFormat(p)
		if err == nil && (v < 1 || !bytes.Equal(formatText(v), p)) {
			t.Fatalf("%q is version %d", p, v)
		}
	})
}
