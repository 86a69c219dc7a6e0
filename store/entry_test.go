package store

import (
	"testing"

	"allium/protocols/b3"
	"allium/store/meta"
)

func TestNextRoot(t *testing.T) {
	t.Parallel()
	r := b3.Root{31: 0xff}
	if got, ok := meta.NextRoot(r); !ok || got != (b3.Root{30: 1}) {
		t.Errorf("%v, %t", got, ok)
	}
	for i := range r {
		r[i] = 0xff
	}
	if _, ok := meta.NextRoot(r); ok {
		t.Error("there is one after the last")
	}
}
