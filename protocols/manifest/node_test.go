package manifest

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"
	"pgregory.net/rapid"

	"allium/protocols/b3"
	"allium/protocols/status"
)

var update = flag.Bool("update", false, "rewrite testdata/golden.txt")

// TestGolden holds the format still: a change of any line changes addresses
// that are out in the world.
func TestGolden(t *testing.T) {
	var many []Entry
	for i := range 20_000 {
		many = append(many, numbered(i))
	}
	empty := objects{}
	emptyRoot, emptySize := build(t, empty.put, standard, nil)
	var got strings.Builder
	got.WriteString("# name, entries, address and bytes (in hex; - when large) of a directory's root node\n")
	for _, c := range []struct {
		name    string
		entries []Entry
	}{
		{"empty", nil},
		{"one-file", []Entry{fileEntry("hello.txt", "hello\n")}},
		{"empty-file", []Entry{fileEntry("empty", "")}},
		{"all-kinds", []Entry{
			{Name: "bin", Kind: Directory, Root: emptyRoot, Size: emptySize},
			{Name: "link", Kind: Link, Target: "../bin/run"},
			fileEntry("plain", "x"),
			{Name: "run", Kind: File, Root: b3.Sum([]byte("#!/bin/sh\n")), Size: 10, Executable: true},
			fileEntry("Überraschung", "large"),
			{Name: "日本語", Kind: File, Root: b3.Sum([]byte("big")), Size: 1 << 40},
		}},
		{"split", many},
	} {
		sortEntries(c.entries)
		o := objects{}
		root, _ := build(t, o.put, standard, c.entries)
		content := hex.EncodeToString(o[root])
		if len(c.entries) > 1000 {
			content = "-"
		}
		fmt.Fprintln(&got, c.name, len(c.entries), root, content)
	}
	const file = "testdata/golden.txt"
	if *update {
		if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("got\n%swant\n%s", got.String(), want)
	}
}

// TestByHand is the format written down byte by byte.
func TestByHand(t *testing.T) {
	digest := bytes.Repeat([]byte{0xd1}, b3.Size)
	var p []byte
	for _, part := range []any{
		"allium-manifest/1\n",
		0xa2, 0x00, 0x01, 0x01, 0x82, // {0: 1, 1: [2 entries]}
		// file a, 256 bytes, executable
		0xa4, 0x00, 0x61, "a", 0x02, 0x58, 0x20, digest, 0x03, 0x19, 0x01, 0x00, 0x04, 0xf5,
		0xa3, 0x00, 0x61, "b", 0x01, 0x02, 0x05, 0x61, "a", // link b to a
	} {
		switch part := part.(type) {
		case string:
			p = append(p, part...)
		case []byte:
			p = append(p, part...)
		case int:
			p = append(p, byte(part))
		}
	}
	want := []Entry{
		{Name: "a", Root: b3.Root(digest), Size: 256, Executable: true},
		{Name: "b", Kind: Link, Target: "a"},
	}
	n, err := Decode(p)
	if err != nil || n.Index || !slices.Equal(n.Entries, want) {
		t.Fatalf("decoded %v, %v", n, err)
	}
	if root, _ := build(t, objects{}.put, standard, want); root != b3.Sum(p) {
		t.Errorf("built %s, want %s", root, b3.Sum(p))
	}
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		entries := genEntries(30).Draw(rt, "entries")
		p := rawNode(t, kindDirectory, wires(entries)...)
		n, err := Decode(p)
		if err != nil {
			rt.Fatal(err)
		}
		if !slices.Equal(n.Entries, entries) {
			rt.Fatalf("got %v, want %v", n.Entries, entries)
		}
		// A generic encoder, told nothing but numbers, writes the same.
		items := []any{}
		for _, e := range entries {
			m := map[int]any{0: e.Name}
			if e.Kind != File {
				m[1] = int(e.Kind)
			}
			if e.Kind != Link {
				m[2] = e.Root[:]
			}
			if e.Size != 0 {
				m[3] = e.Size
			}
			if e.Executable {
				m[4] = true
			}
			if e.Target != "" {
				m[5] = e.Target
			}
			items = append(items, m)
		}
		node := map[int]any{0: 1}
		if len(items) > 0 {
			node[1] = items
		}
		mode, err := cbor.CoreDetEncOptions().EncMode()
		if err != nil {
			rt.Fatal(err)
		}
		if body, err := mode.Marshal(node); err != nil || Magic+string(body) != string(p) {
			rt.Fatalf("generic encoding %x, %v; want %x", body, err, p)
		}
	})
}

// TestDecodeRefuses is a table of bodies, each one step from something valid.
func TestDecodeRefuses(t *testing.T) {
	digest := "5820" + strings.Repeat("d1", b3.Size)
	file := func(name string) string { return "a2" + "00" + text(name) + "02" + digest }
	child := func(name string) string { return "a3" + "00" + text(name) + "02" + digest + "03" + "1864" }
	for name, body := range map[string]string{
		"nothing":                 "",
		"not a map":               "80",
		"no kind":                 "a0",
		"kind 0":                  "a10000",
		"kind 3":                  "a10003",
		"kind of 2^8+1":           "a100190101",
		"negative kind":           "a10020",
		"empty array not omitted": "a200010180",
		"index of nothing":        "a10002",
		"unknown member":          "a200010200",
		"text key":                "a2000161610a",
		"members out of order":    "a2" + "0181" + file("a") + "0001",
		"duplicate member":        "a200010001",
		"trailing data":           "a1000100",
		"truncated":               "a200010181",
		"long integer":            "a1001801",
		"indefinite map":          "bf0001ff",
		"indefinite array":        "a20001019f" + file("a") + "ff",
		"tag":                     "c1a10001",
		"tagged digest":           "a200010181" + "a2" + "00" + text("a") + "02" + "c2" + digest,
		"entry is null":           "a200010181f6",
		"entry without name":      "a200010181" + "a1" + "02" + digest,
		"name as bytes":           "a200010181" + "a2" + "004161" + "02" + digest,
		"name not UTF-8":          "a200010181" + "a2" + "0061ff" + "02" + digest,
		"chunked name":            "a200010181" + "a2" + "007f6161ff" + "02" + digest,
		"name ..":                 "a200010181" + file(".."),
		"name .":                  "a200010181" + file("."),
		"name with a slash":       "a200010181" + file("a/b"),
		"name with a NUL":         "a200010181" + file("a\x00"),
		"name not NFC":            "a200010181" + file("e\u0301"),
		"names out of order":      "a200010182" + file("b") + file("a"),
		"name twice":              "a200010182" + file("a") + file("a"),
		"file without digest":     "a200010181" + "a1" + "00" + text("a"),
		"short digest":            "a200010181" + "a2" + "00" + text("a") + "02" + "41d1",
		"zero digest": "a200010181" + "a2" + "00" + text("a") + "02" + "5820" +
			strings.Repeat("00", b3.Size),
		"digest as text": "a200010181" + "a2" + "00" + text("a") + "02" + "7820" +
			strings.Repeat("61", b3.Size),
		"size 0 not omitted":      "a200010181" + "a3" + "00" + text("a") + "02" + digest + "0300",
		"negative size":           "a200010181" + "a3" + "00" + text("a") + "02" + digest + "0320",
		"size of 2^63":            "a200010181" + "a3" + "00" + text("a") + "02" + digest + "031b8000000000000000",
		"size as float":           "a200010181" + "a3" + "00" + text("a") + "02" + digest + "03f93c00",
		"executable false":        "a200010181" + "a3" + "00" + text("a") + "02" + digest + "04f4",
		"kind 3 of entry":         "a200010181" + "a3" + "00" + text("a") + "0103" + "02" + digest,
		"file with target":        "a200010181" + "a3" + "00" + text("a") + "02" + digest + "05" + text("b"),
		"link without target":     "a200010181" + "a2" + "00" + text("a") + "0102",
		"link with digest":        "a200010181" + "a4" + "00" + text("a") + "0102" + "02" + digest + "05" + text("b"),
		"link with empty digest":  "a200010181" + "a4" + "00" + text("a") + "0102" + "0240" + "05" + text("b"),
		"link with NUL in target": "a200010181" + "a3" + "00" + text("a") + "0102" + "05" + text("b\x00"),
		"directory without size":  "a200010181" + "a3" + "00" + text("a") + "0101" + "02" + digest,
		"directory too large":     "a200010181" + "a4" + "00" + text("a") + "0101" + "02" + digest + "031a00100001",
		"executable directory": "a200010181" + "a5" + "00" + text("a") + "0101" + "02" + digest + "031864" +
			"04f5",
		"index entry without size": "a200020181" + file("a"),
		"index entry with kind":    "a200020181" + "a4" + "00" + text("a") + "0101" + "02" + digest + "031864",
		"index entry executable":   "a200020181" + "a4" + "00" + text("a") + "02" + digest + "031864" + "04f5",
		"index entry with target": "a200020181" + "a4" + "00" + text("a") + "02" + digest + "031864" + "05" +
			text("b"),
		"index entries out of order":      "a200020182" + child("b") + child("a"),
		"index entry twice":               "a200020182" + child("a") + child("a"),
		"index entry with a hostile name": "a200020181" + child(".."),
		"nested too deep":                 "a2000101" + strings.Repeat("81", 100) + "00",
		"array of 2^32 - 1":               "a20001019affffffff",
		"array of 2^63":                   "a20001019b8000000000000000",
		"name of 2^62 bytes":              "a200010181" + "a2" + "007b4000000000000000",
	} {
		b, err := hex.DecodeString(body)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		n, err := Decode(append([]byte(Magic), b...))
		if err == nil || status.Of(err) != status.BadRequest {
			t.Errorf("%s: decoded %+v, %v", name, n, err)
		}
	}
	for name, body := range map[string]string{"a directory": "a200010182" + file("a") + file("b"),
		"an index": "a200020182" + child("a") + child("b")} {
		b, err := hex.DecodeString(body)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Decode(append([]byte(Magic), b...)); err != nil {
			t.Errorf("%s, which the table starts from: %v", name, err)
		}
	}
}

// text is a CBOR text string of up to 23 bytes, in hex.
func text(s string) string { return hex.EncodeToString(append([]byte{0x60 | byte(len(s))}, s...)) }

func TestNotAManifest(t *testing.T) {
	for _, s := range []string{"", "allium-manifest/1", "allium-manifest/2\n\xa1\x00\x01",
		"Allium-manifest/1\n\xa1\x00\x01", "\xa1\x00\x01", "hello"} {
		if IsManifest([]byte(s)) {
			t.Errorf("%q passes for a manifest", s)
		}
		if _, err := Decode([]byte(s)); !errors.Is(err, ErrNotManifest) {
			t.Errorf("decode %q: %v", s, err)
		}
	}
	if _, err := Decode(make([]byte, MaxNode+1)); !errors.Is(err, ErrNotManifest) {
		t.Error(err)
	}
	if _, err := Decode(append([]byte(Magic), make([]byte, MaxNode)...)); err == nil || errors.Is(err, ErrNotManifest) {
		t.Errorf("too large: %v", err)
	}
	if _, err := Decode([]byte(Magic)); err == nil || errors.Is(err, ErrNotManifest) {
		t.Errorf("the bare magic line: %v", err)
	}
}

func TestRefs(t *testing.T) {
	o := objects{}
	sub, subSize := build(t, o.put, standard, []Entry{fileEntry("x", "x")})
	manifestAsFile := Entry{Name: "manifest", Kind: File, Root: sub, Size: subSize}
	entries := []Entry{
		{Name: "dir", Kind: Directory, Root: sub, Size: subSize},
		fileEntry("file", "abc"),
		{Name: "link", Kind: Link, Target: "file"},
		manifestAsFile,
	}
	root, _ := build(t, o.put, standard, entries)
	want := []Ref{
		{Root: sub, Size: subSize, Manifest: true},
		{Root: b3.Sum([]byte("abc")), Size: 3},
		{Root: sub, Size: subSize}, // a file, whatever it holds
	}
	if refs, err := Refs(o[root]); err != nil || !slices.Equal(refs, want) {
		t.Errorf("without its node: %v, %v, want %v", refs, err, want)
	}
	if n, err := Decode(o[root]); err != nil || !slices.Equal(n.Refs(), want) {
		t.Errorf("got %v, %v; want %v", n, err, want)
	}
	a, b := o.raw(t, kindDirectory, wires(entries[:2])...), o.raw(t, kindDirectory, wires(entries[2:])...)
	index := o.raw(t, kindIndex, *a.wire(), *b.wire())
	want = []Ref{{Root: a.Root, Size: a.Size, Manifest: true}, {Root: b.Root, Size: b.Size, Manifest: true}}
	if refs, err := Refs(o[index.Root]); err != nil || !slices.Equal(refs, want) {
		t.Errorf("without its node: %v, %v, want %v", refs, err, want)
	}
	if n, err := Decode(o[index.Root]); err != nil || !slices.Equal(n.Refs(), want) {
		t.Errorf("got %v, %v; want %v", n, err, want)
	}
}

// TestErrorsAreSafeToPrint: a hostile name reaches a terminal quoted and cut.
func TestErrorsAreSafeToPrint(t *testing.T) {
	name := "\x1b[2J/" + strings.Repeat("x", 1<<20)
	err := invalidEntry(name, "%s", NameProblem(name))
	if strings.ContainsRune(err.Error(), 0x1b) || len(err.Error()) > 1000 {
		t.Errorf("%d bytes: %.100q", len(err.Error()), err)
	}
}
