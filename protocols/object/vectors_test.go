package object

import (
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
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

// putObjects are the objects that are put in the conversations.
func putObjects() map[string][]byte {
	large := make([]byte, 150_000)
	for i := range large {
		large[i] = byte(i % 241)
	}
	return map[string][]byte{
		"new": []byte("new"), "one": []byte("one"), "two": []byte("two"), "slow": []byte("slow"),
		"absent": []byte("absent"), "large": large, "told": []byte("told"),
	}
}

// talk is one stream of objects.txt.
type talk struct {
	t     *testing.T
	a     *asker
	names *strings.Replacer
	items map[string][]byte // the payloads of the frames with the items of each put, one after the other
	got   []string          // answers that were not compared yet
}

// TestObjectVectors holds the conversations of objects.txt.
func TestObjectVectors(t *testing.T) {
	raw, err := os.ReadFile(vectorFile)
	if err != nil {
		t.Fatal(err)
	}
	p := newPairWith(t, testkit.Options{}, DefaultConfig(), func(d *ServerDeps, _ *ClientDeps) {
		r := newMemReceiver(d.Store.(*memStore))
		r.token = "token"
		d.Receiver = r
	})
	c := &talk{t: t, items: map[string][]byte{}}
	var pairs []string
	for name, data := range vectorObjects() {
		pairs = append(pairs, "$"+name, p.store.put(data).String())
	}
	for name, data := range putObjects() {
		pairs = append(pairs, "$"+name, b3.Sum(data).String())
		for _, f := range itemFrames(t, 1, data) {
			c.items["$"+name] = append(c.items["$"+name], f.Payload...)
		}
	}
	c.names = strings.NewReplacer(pairs...)
	var out []string
	conversations := 0
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimRight(line, "\n")
		key, text, _ := strings.Cut(line, " ")
		switch key {
		case "answer":
			if *update {
				continue
			}
			if len(c.got) == 0 || c.names.Replace(text) != c.got[0] {
				t.Fatalf("answered\n%s\nwant\n%s", strings.Join(c.got, "\n"), c.names.Replace(text))
			}
			c.got = c.got[1:]
			continue
		case "ask":
			if conversations++; c.a != nil {
				_ = c.a.st.Reset()
			}
			c.a = p.ask(t)
			c.ask(text)
		case "send":
			line = "send " + c.send(text)
		}
		out = append(out, line)
		if (key == "ask" || key == "send") && *update {
			for _, g := range c.got {
				out = append(out, "answer "+g)
			}
			c.got = nil
		}
	}
	_ = c.a.st.Reset()
	if len(c.got) > 0 || conversations < 20 {
		t.Errorf("%d conversations; not in the file: %q", conversations, c.got)
	}
	if *update {
		if err := os.WriteFile(vectorFile, []byte(strings.Join(out, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// flagsOf returns flags as objects.txt writes them.
func flagsOf(text string) (f oap.Flags) {
	for flag := range strings.SplitSeq(text, "|") {
		for i := oap.Flags(1); i <= oap.FlagAppE2E; i <<= 1 {
			if i.String() == flag {
				f |= i
			}
		}
	}
	return f
}

// ask sends the frame that begins a conversation.
func (c *talk) ask(text string) {
	flags, payload, _ := strings.Cut(text, " ")
	f := oap.Frame{Header: oap.Header{Flags: flagsOf(flags), Proto: oap.ProtoObject, CorrID: 1}}
	if rest, ok := strings.CutPrefix(payload, "code="); ok {
		code, after, _ := strings.Cut(rest, " ")
		n, err := strconv.ParseUint(code, 10, 16)
		if err != nil {
			c.t.Fatal(text)
		}
		f.Code, payload = uint16(n), after
	}
	if rest, ok := strings.CutPrefix(payload, "cap="); ok {
		token, after, _ := strings.Cut(rest, " ")
		f.Cap, payload = []byte(token), after
	}
	f.Payload = []byte(c.names.Replace(payload))
	c.a.send(f)
	c.answers()
}

// send sends a frame with items, and returns the text of it.
func (c *talk) send(text string) string {
	parts := strings.Fields(text)
	f := oap.Frame{Header: oap.Header{Flags: flagsOf(parts[0]), Proto: oap.ProtoObject, CorrID: 1}}
	if digits, ok := strings.CutPrefix(parts[1], "hex="); ok {
		f.Payload, _ = hex.DecodeString(digits)
	} else {
		from, err1 := strconv.Atoi(parts[2])
		to, err2 := strconv.Atoi(parts[3])
		if err1 != nil || err2 != nil {
			c.t.Fatal(text)
		}
		f.Payload = c.items[parts[1]][from:to]
		text = fmt.Sprintf("%s bytes=%d %s", strings.Join(parts[:4], " "), to-from, b3.Sum(f.Payload))
		if !*update && text != strings.Join(parts, " ") {
			c.t.Errorf("%s, want %s", strings.Join(parts, " "), text)
		}
	}
	c.a.sendItems(f)
	if f.Flags.Has(oap.FlagEnd) {
		c.answers()
	}
	return text
}

// answers reads the answer up to its last frame, the reset, or the frame after which items
// follow.
func (c *talk) answers() {
	c.t.Helper()
	for {
		f, err := c.a.r.Next()
		var reset *network.StreamError
		switch {
		case errors.As(err, &reset):
			c.got = append(c.got, fmt.Sprintf("reset %#x", uint32(reset.ErrorCode)))
			return
		case errors.Is(err, io.EOF), err != nil:
			c.t.Fatal(err)
		}
		c.got = append(c.got, spell(f))
		var w wireGroups
		put := f.Flags.Has(oap.FlagStart) && (len(f.Payload) <= 3 || oap.DecodeJSON(f.Payload, &w, false) == nil)
		if f.Flags.Has(oap.FlagEnd) || put {
			return
		}
	}
}
