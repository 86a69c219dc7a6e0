package b3

import (
	"encoding/base32"
	"encoding/hex"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/ipfs/go-cid"
	"github.com/multiformats/go-multihash"

	"allium/protocols/status"
)

const emptyHex = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"

func TestVectors(t *testing.T) {
	raw, err := os.ReadFile("testdata/blake3_test_vectors.json")
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
		p, want := pattern(v.InputLen), v.Hash[:2*Size]
		if got := Sum(p).Hex(); got != want {
			t.Errorf("Sum of %d: got %s, want %s", v.InputLen, got, want)
		}
		for workers := range 4 {
			h := NewHasher(nil, workers)
			h.Write(p)
			if got, n, err := h.Sum(); got.Hex() != want || n != int64(len(p)) || err != nil {
				t.Errorf("Hasher of %d with %d workers: got %s, %d, %v, want %s", v.InputLen, workers, got, n, err, want)
			}
		}
	}
}

func TestParse(t *testing.T) {
	good := "b3:" + emptyHex
	r, err := Parse(good)
	if err != nil || r != Sum(nil) || r.String() != good || r.Hex() != emptyHex || r.IsZero() || !(Root{}).IsZero() {
		t.Fatalf("%s: got %s, %v", good, r, err)
	}
	for _, tc := range []struct{ in, says string }{
		{"", "does not start with b3:"},
		{emptyHex, "does not start with b3:"},
		{"B3:" + emptyHex, "does not start with b3:"},
		{" " + good, "does not start with b3:"},
		{"b3:", "0 digits"},
		{good[:66], "63 digits"},
		{good + "0", "65 digits"},
		{good + "\n", "65 digits"},
		{"b3:" + strings.ToUpper(emptyHex), "lowercase"},
		{"b3:" + "g" + emptyHex[1:], "digit 1 is not hexadecimal"},
		{good[:66] + "é"[:1], "digit 64 is not hexadecimal"},
		{strings.Repeat("x", 1<<20), "does not start"},
	} {
		r, err := Parse(tc.in)
		if err == nil || !r.IsZero() || status.Of(err) != status.BadAddress || !strings.Contains(err.Error(), tc.says) || len(err.Error()) > 200 {
			t.Errorf("Parse(%.80q): got %s, %v; want an error with %q", tc.in, r, err, tc.says)
		}
	}
}

func TestJSON(t *testing.T) {
	type doc struct {
		Obj  Root
		Seen map[Root]int
	}
	in := doc{Sum(nil), map[Root]int{Sum([]byte("x")): 1}}
	text, err := json.Marshal(in)
	if err != nil || !strings.HasPrefix(string(text), `{"Obj":"b3:`+emptyHex+`","Seen":{"b3:`) {
		t.Fatalf("got %s, %v", text, err)
	}
	var out doc
	if err := json.Unmarshal(text, &out); err != nil || out.Obj != in.Obj || out.Seen[Sum([]byte("x"))] != 1 {
		t.Fatalf("got %+v, %v", out, err)
	}
	if err := json.Unmarshal([]byte(`{"Obj":"b3:00"}`), &out); status.Of(err) != status.BadAddress {
		t.Fatalf("a short address: %v", err)
	}
	if out.Obj != in.Obj {
		t.Fatal("a refused address changed the value")
	}
}

func TestCID(t *testing.T) {
	r := Sum(nil)
	digest, err := hex.DecodeString(emptyHex)
	if err != nil {
		t.Fatal(err)
	}
	raw := append([]byte{0x01, 0x55, 0x1e, 0x20}, digest...)
	want := "b" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(raw))
	c := r.CID()
	if got := c.String(); got != want || len(got) != 59 || !strings.HasPrefix(got, "bafkr4i") {
		t.Fatalf("got %s, want %s", got, want)
	}
	if back, err := FromCID(c); err != nil || back != r {
		t.Fatalf("got %s, %v", back, err)
	}
	if back, err := FromMultihash(r.Multihash()); err != nil || back != r {
		t.Fatalf("got %s, %v", back, err)
	}
	other := func(code uint64, digest []byte) multihash.Multihash {
		m, err := multihash.Encode(digest, code)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	for name, c := range map[string]cid.Cid{
		"undefined": {},
		"version 0": cid.NewCidV0(other(multihash.SHA2_256, digest)),
		"dag-pb":    cid.NewCidV1(cid.DagProtobuf, r.Multihash()),
		"sha2-256":  cid.NewCidV1(cid.Raw, other(multihash.SHA2_256, digest)),
		"short":     cid.NewCidV1(cid.Raw, other(multihash.BLAKE3, digest[:31])),
		"long":      cid.NewCidV1(cid.Raw, other(multihash.BLAKE3, append(digest, 0))),
	} {
		if back, err := FromCID(c); status.Of(err) != status.BadAddress || !back.IsZero() {
			t.Errorf("%s: got %s, %v", name, back, err)
		}
	}
	m := r.Multihash()
	for _, bad := range [][]byte{nil, m[:1], m[:33], append(m[:34:34], 0)} {
		if back, err := FromMultihash(bad); status.Of(err) != status.BadAddress || !back.IsZero() {
			t.Errorf("%x: got %s, %v", bad, back, err)
		}
	}
}
