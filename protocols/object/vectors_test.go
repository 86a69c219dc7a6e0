package object

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/libp2p/go-libp2p/core/network"

	"allium/internal/testkit"
	"allium/protocols/b3"
	"allium/protocols/oap"
)

var update = flag.Bool("update", false, "write the answers of testdata/objects.txt anew")

const vectorFile = "../oap/testdata/objects.txt"

// vectorObjects are the objects that the conversations are about; objects.txt says
// how they are made.
func vectorObjects() map[string][]byte {
	pattern := make([]byte, 150_000)
	for i := range pattern {
		pattern[i] = byte(i % 251)
	}
	return map[string][]byte{"empty": {}, "hello": []byte("hello"), "pattern": pattern}
}

// spell is a frame as objects.txt writes it: a payload of JSON or of few bytes is
// spelled out, of another its length and BLAKE3.
func spell(f oap.Frame) string {
	s := fmt.Sprintf("%s code=%d", f.Flags, f.Code)
	switch p := f.Payload; {
	case len(p) == 0:
		return s
	case p[0] == '{':
		return s + " " + string(p)
	case len(p) <= 32:
		return fmt.Sprintf("%s hex=%x", s, p)
	}
	return fmt.Sprintf("%s bytes=%d %s", s, len(f.Payload), b3.Sum(f.Payload))
}

// TestObjectVectors holds the conversations of objects.txt.
func TestObjectVectors(t *testing.T) {
	raw, err := os.ReadFile(vectorFile)
	if err != nil {
		t.Fatal(err)
	}
	p := newPair(t, testkit.Options{}, DefaultConfig())
	var pairs []string
	for name, data := range vectorObjects() {
		pairs = append(pairs, "$"+name, p.store.put(data).String())
	}
	names := strings.NewReplacer(append(pairs, "$absent", b3.Sum([]byte("absent")).String())...)
	var out []string
	var got []string // answers that were not compared yet
	conversations := 0
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimRight(line, "\n")
		key, text, _ := strings.Cut(line, " ")
		switch key {
		case "answer":
			if *update {
				continue
			}
			if len(got) == 0 || names.Replace(text) != got[0] {
				t.Fatalf("answered\n%s\nwant\n%s", strings.Join(got, "\n"), names.Replace(text))
			}
			got = got[1:]
			continue
		case "ask":
			conversations++
			flags, payload, _ := strings.Cut(text, " ")
			got = converse(t, p, flags, names.Replace(payload))
		}
		out = append(out, line)
		if key == "ask" && *update {
			for _, g := range got {
				out = append(out, "answer "+g)
			}
			got = nil
		}
	}
	if len(got) > 0 || conversations < 12 {
		t.Errorf("%d conversations; not in the file: %q", conversations, got)
	}
	if *update {
		if err := os.WriteFile(vectorFile, []byte(strings.Join(out, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// converse sends a frame on a stream of its own and returns the answer, up to its
// last frame or the reset.
func converse(t *testing.T, p *pair, flags, payload string) (answers []string) {
	t.Helper()
	h := oap.Header{Proto: oap.ProtoObject, CorrID: 1}
	for flag := range strings.SplitSeq(flags, "|") {
		for i := oap.Flags(1); i <= oap.FlagAppE2E; i <<= 1 {
			if i.String() == flag {
				h.Flags |= i
			}
		}
	}
	a := p.ask(t)
	defer func() { _ = a.st.Reset() }()
	a.send(oap.Frame{Header: h, Payload: []byte(payload)})
	for {
		f, err := a.r.Next()
		var reset *network.StreamError
		switch {
		case errors.As(err, &reset):
			return append(answers, fmt.Sprintf("reset %#x", uint32(reset.ErrorCode)))
		case errors.Is(err, io.EOF), err != nil:
			t.Fatal(err)
		}
		answers = append(answers, spell(f))
		if f.Flags.Has(oap.FlagEnd) {
			return answers
		}
	}
}
