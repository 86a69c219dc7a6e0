package storetest

import (
	"encoding/json"
	"os"
	"testing"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
)

// officialVectors are the paths at which the test vectors of the BLAKE3 team may be. Package
// b3 has them. Tests run in the directory of their package: store, or one below it.
var officialVectors = []string{"../protocols/b3/testdata/blake3_test_vectors.json",
	"../../protocols/b3/testdata/blake3_test_vectors.json"}

// testVectors puts the input of each official vector under the address in the vector and reads
// it back. A put that expects another address must fail.
func testVectors(t *testing.T, s *store.Store) {
	var raw []byte
	var err error
	for _, name := range officialVectors {
		if raw, err = os.ReadFile(name); err == nil {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Cases []struct {
			InputLen int `json:"input_len"`
			Hash     string
		}
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) != 35 {
		t.Fatalf("%d vectors, want 35", len(file.Cases))
	}
	for _, v := range file.Cases {
		p := make([]byte, v.InputLen)
		for i := range p {
			p[i] = byte(i % 251)
		}
		root, err := b3.Parse("b3:" + v.Hash[:2*b3.Size])
		if err != nil {
			t.Fatal(err)
		}
		wrong := root
		wrong[0] ^= 1
		_, err = s.PutBytes(t.Context(), p, store.PutOptions{Expect: wrong})
		Want(t, err, status.BadDigest)
		info, err := s.PutBytes(t.Context(), p, store.PutOptions{Expect: root})
		if err != nil || info.Root != root || !info.New {
			t.Fatalf("put of the %d bytes of a vector: %+v, %v", v.InputLen, info, err)
		}
		Holds(t, s, p)
	}
	wantCount(t, s, len(file.Cases))
}
