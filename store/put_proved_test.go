package store_test

import (
	"bytes"
	"testing"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
	"allium/store/storetest"
)

// TestPutProved: bytes are stored under the address that they were proved to have, and only if they are the ones that
// were proved, and the whole object.
func TestPutProved(t *testing.T) {
	t.Parallel()
	prove := func(p []byte) b3.Proved {
		walk, err := b3.NewWalk(b3.Sum(p), int64(len(p)), nil)
		if err != nil {
			t.Fatal(err)
		}
		group, err := walk.Accept(p)
		if err != nil {
			t.Fatal(err)
		}
		return group
	}
	backends(t, func(t *testing.T, cfg store.Config) {
		s, _ := storetest.Start(t, cfg, store.Deps{})
		own, other := []byte("the bytes"), []byte("other one")
		for _, c := range []struct {
			put    []byte
			proved b3.Proved
			expect b3.Root
			want   status.Outcome
		}{
			{own, prove(own), b3.Sum(own), status.OK},
			{own, prove(own), b3.Root{}, status.OK},
			{own, prove(own), b3.Sum(other), status.BadDigest},
			{other, prove(own), b3.Sum(own), status.BadDigest}, // these were not proved
			{bytes.Clone(own), prove(own), b3.Sum(own), status.OK},
			{nil, prove(nil), b3.Sum(nil), status.OK},
		} {
			info, err := s.PutBytes(t.Context(), c.put, store.PutOptions{Expect: c.expect, Proved: c.proved})
			if status.Of(err) != c.want || err == nil && info.Root != b3.Sum(c.put) {
				t.Errorf("put of %q: %v, %v, want %s", c.put, info.Root, err, c.want)
			}
		}
	})
}
