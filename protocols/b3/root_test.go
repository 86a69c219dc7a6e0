package b3

import (
	"encoding/base32"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

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
				t.Errorf("Hasher of %d with %d workers: got %s, %d, %v, want %s", v.InputLen,
					workers, got, n, err, want)
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
	const hex = 2 * Size
	for _, tc := range []struct {
		in   string
		want AddressError // Text aside
		says string
	}{
		{"", AddressError{Problem: NoPrefix}, "it does not start with b3:"},
		{emptyHex, AddressError{Problem: NoPrefix}, "it does not start with b3:"},
		{" " + good, AddressError{Problem: NoPrefix}, "it does not start with b3:"},
		{strings.Repeat("x", 1<<20), AddressError{Problem: NoPrefix}, "it does not start with b3:"},
		{"b3:", AddressError{Problem: TooShort}, "it is too short (0 of 64 hex digits)"},
		{good[:66], AddressError{Problem: TooShort, Digits: hex - 1}, "it is too short (63 of 64 hex digits)"},
		{"b3:AF13", AddressError{Problem: TooShort, Digits: 4}, "it is too short (4 of 64 hex digits)"},
		{
			good + "0", AddressError{Problem: TooLong, Digits: hex + 1},
			"it is too long (65 characters after b3:, want 64)",
		},
		{
			good + "\n", AddressError{Problem: TooLong, Digits: hex + 1},
			"it is too long (65 characters after b3:, want 64)",
		},
		{
			good + strings.Repeat("0", 1<<20), AddressError{Problem: TooLong, Digits: hex + 1<<20},
			"it is too long (1048640 characters after b3:, want 64)",
		},
		{"b3:" + strings.ToUpper(emptyHex), AddressError{Problem: UpperCase}, "its letters must be lower-case"},
		{"B3:" + emptyHex, AddressError{Problem: UpperCase}, "its letters must be lower-case"},
		{good[:66] + "A", AddressError{Problem: UpperCase}, "its letters must be lower-case"},
		{
			"b3:" + "g" + emptyHex[1:], AddressError{Problem: NotHex, Char: 'g', Position: 1},
			"character 1 after b3: is 'g', not a hex digit",
		},
		{
			"b3:af13 49b9", AddressError{Problem: NotHex, Char: ' ', Position: 5},
			"character 5 after b3: is ' ', not a hex digit",
		},
		{
			"b3:né", AddressError{Problem: NotHex, Char: 'n', Position: 1},
			"character 1 after b3: is 'n', not a hex digit",
		},
		{
			"b3:aé", AddressError{Problem: NotHex, Char: 'é', Position: 2},
			"character 2 after b3: is 'é', not a hex digit",
		},
		{
			good[:66] + "é"[:1], AddressError{Problem: NotHex, Char: utf8.RuneError, Position: 64},
			"character 64 after b3: is '\ufffd', not a hex digit",
		},
	} {
		r, err := Parse(tc.in)
		var got *AddressError
		if !errors.As(err, &got) || !r.IsZero() || status.Of(err) != status.BadAddress {
			t.Errorf("Parse(%.80q): got %s, %v; want an AddressError", tc.in, r, err)
			continue
		}
		if !strings.HasSuffix(err.Error(), " is not an address: "+tc.says) || len(err.Error()) > 200 {
			t.Errorf("Parse(%.80q): got %q; want %q", tc.in, err, tc.says)
		}
		if tc.want.Text = got.Text; *got != tc.want || !strings.HasPrefix(tc.in, strings.TrimSuffix(got.Text, "…")) {
			t.Errorf("Parse(%.80q): got %+v, want %+v", tc.in, *got, tc.want)
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
