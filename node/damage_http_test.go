package node_test

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"allium/internal/testkit"
	"allium/node/config"
	"allium/protocols/b3"
	"allium/protocols/bao"
)

// damage is a byte of an object's files that is flipped.
type damage struct {
	name string
	ext  string // of the file
	at   int64
	// [from, to) are the object's bytes that cannot be proved any more.
	from, to int64
}

// damagedSize is that of the objects: several MiB, the last group a short one.
const damagedSize = 40*b3.GroupSize + 100

var damages = []damage{
	{"the first group", "", 17, 0, b3.GroupSize},
	{"a middle group", "", 20*b3.GroupSize + 5, 20 * b3.GroupSize, 21 * b3.GroupSize},
	{"the last group", "", damagedSize - 1, 40 * b3.GroupSize, damagedSize},
	{"the tree's root", ".ob", 3, 0, damagedSize},
}

// flip turns a bit of one of an object's files.
func (d damage) flip(t *testing.T, n *running, root b3.Root) {
	t.Helper()
	name := filepath.Join(n.home, "store", "obj", root.Hex()[:2], root.Hex()+d.ext)
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [1]byte
	if _, err := f.ReadAt(b[:], d.at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0x04
	if _, err := f.WriteAt(b[:], d.at); err != nil {
		t.Fatal(err)
	}
}

// read is one way to read an object over HTTP.
type read struct {
	name       string
	method     string
	query      string
	start, end int64 // of the object's bytes, all of which it needs
}

// reader reads over one version of HTTP.
func reader(t *testing.T, h2 bool) *http.Client {
	t.Helper()
	tr := &http.Transport{Protocols: new(http.Protocols), DisableCompression: true, TLSClientConfig: &tls.Config{}}
	tr.Protocols.SetHTTP1(!h2)
	tr.Protocols.SetUnencryptedHTTP2(h2)
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// outcome is what came of a read.
type outcome struct {
	resp *http.Response
	got  []byte // proved bytes, of an encoding the decoded ones
	err  error  // nil: it looks whole
}

func (r read) do(t *testing.T, c *http.Client, n *running, root b3.Root) (o outcome) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), r.method, n.ID().Gateway+"/o/"+root.String()+r.query, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.start > 0 || r.end < damagedSize {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", r.start, r.end-1))
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	o.resp = resp
	var body io.Reader = resp.Body
	if r.query != "" && resp.StatusCode < http.StatusBadRequest {
		body = bao.NewDecoder(root, b3.Range{Start: r.start, End: r.end}, body)
	}
	o.got, o.err = io.ReadAll(body)
	return o
}

// check holds an outcome against the damage.
func (r read) check(t *testing.T, d damage, o outcome, whole []byte, h2 bool) {
	t.Helper()
	bad := func(what string) {
		t.Helper()
		t.Errorf("%s, %s, h2 %t: %s: %s, %d bytes, %v", d.name, r.name, h2, what, o.resp.Status, len(o.got), o.err)
	}
	if (o.resp.ProtoMajor == 2) != h2 {
		bad("the wrong version")
	}
	if o.resp.StatusCode >= http.StatusBadRequest {
		// Only where the first group that is needed is the wrong one.
		first := r.start / b3.GroupSize * b3.GroupSize
		reason := o.resp.Header.Get("X-Reason")
		if o.resp.StatusCode != http.StatusBadGateway || reason != "corrupt" || o.resp.Header.Get("ETag") != "" ||
			o.err != nil {
			bad("no problem of the damage, but " + reason)
		}
		// what it is shows in its first bytes
		if r.method != http.MethodHead && (first < d.from || first >= d.to) && (d.from > 0 || r.query != "") {
			bad("refused, though it begins well")
		}
		return
	}
	if r.method == http.MethodHead {
		if o.resp.ContentLength != damagedSize || len(o.got) != 0 {
			bad("no such HEAD")
		}
		return
	}
	hit := r.start < d.to && d.from < r.end
	switch {
	case !bytes.HasPrefix(whole[r.start:r.end], o.got):
		bad("wrong bytes")
	case hit && o.err == nil:
		bad("damage looks whole")
	case hit && r.start+int64(len(o.got)) > d.from:
		bad("what is damaged was sent")
	case !hit && (o.err != nil || int64(len(o.got)) != r.end-r.start):
		bad("cut, though it is well")
	}
}

// TestDamageOverHTTP: of an object that is damaged on the disk, each way to read
// it gives the bytes that can be proved and nothing else. Before the first byte
// the damage is a problem, later a cut, which in HTTP/2 is a reset.
func TestDamageOverHTTP(t *testing.T) {
	noLeaks(t)
	n := start(t, func(c *config.Config) { c.Gateway.H2C = true })
	damaging := []read{
		{"GET", http.MethodGet, "", 0, damagedSize},
		{"the encoding", http.MethodGet, "?format=bao", 0, damagedSize},
		{"the range of it", http.MethodGet, "", -1, -1}, // the damage
	}
	seed := byte(100)
	for _, d := range damages {
		for i, last := range damaging {
			seed++
			root, p := addBytes(t, n, seed, damagedSize)
			h2 := (i+int(seed))%2 == 0
			c := reader(t, h2)
			open := i == 0 // the store has it open already
			if open {
				r := read{"a first look", http.MethodGet, "", 5 * b3.GroupSize, 5*b3.GroupSize + 10}
				r.check(t, damage{name: "none"}, r.do(t, c, n, root), p, h2)
			}
			before := metric(t, n, "store_corrupt_objects")
			d.flip(t, n, root)
			if last.start < 0 {
				last.start, last.end = d.from+3, min(d.to, d.from+b3.GroupSize)-3
			}
			reads := []read{{"HEAD", http.MethodHead, "", 0, damagedSize}}
			if d.ext == "" {
				if d.from > 0 {
					reads = append(reads,
						read{"a range before", http.MethodGet, "", d.from - 100, d.from},
						read{"the encoding before", http.MethodGet, "?format=bao", d.from - b3.GroupSize, d.from})
				}
				if d.to < damagedSize {
					reads = append(reads, read{"a range after", http.MethodGet, "", d.to, d.to + 100},
						read{"the end", http.MethodGet, "", damagedSize - 10, damagedSize})
				}
				if d.from == 0 {
					reads = reads[1:] // HEAD looks at the first bytes
				}
			} else {
				reads = nil // nothing can be proved
			}
			for _, r := range append(reads, last) {
				r.check(t, d, r.do(t, c, n, root), p, h2)
			}
			if got := metric(t, n, "store_corrupt_objects"); got != before+1 {
				t.Errorf("%s, %s: %d objects are marked, and %d before", d.name, last.name, got, before)
			}
			for _, r := range []read{{"GET again", http.MethodGet, "", 0, damagedSize},
				{"HEAD again", http.MethodHead, "", 0, damagedSize},
				{"the encoding again", http.MethodGet, "?format=bao", 0, damagedSize}} {
				if o := r.do(t, c, n, root); o.resp.StatusCode < http.StatusBadRequest ||
					!strings.HasPrefix(o.resp.Header.Get("Content-Type"), "application/problem+json") {
					t.Errorf("%s, %s: %s", d.name, r.name, o.resp.Status)
				}
			}
		}
	}
}

// TestDamageIsMended: what one node finds damaged while it answers comes from another one at once,
// whichever byte it was, so that no client sees it. The object is then repaired.
func TestDamageIsMended(t *testing.T) {
	noLeaks(t)
	a := start(t, nil)
	b := start(t, func(c *config.Config) {
		joining(a)(c)
		c.Gateway.H2C = true
	})
	whole := read{"GET", http.MethodGet, "", 0, damagedSize}
	seed := byte(200)
	for _, d := range damages {
		hit := read{"a range of it", http.MethodGet, "", max(0, d.from-10), min(d.to, d.from+b3.GroupSize)}
		for i, r := range []read{whole, {"the encoding", http.MethodGet, "?format=bao", 0, damagedSize}, hit} {
			seed++
			h2 := i%2 == 0
			root, p := addBytes(t, a, seed, damagedSize)
			awaitProvider(t, b, root.String())
			if _, err := b.api.Fetch(t.Context(), root.String(), nil); err != nil {
				t.Fatal(err)
			}
			repaired := metric(t, b, `repair_objects_total{kind="damage",outcome="ok"}`)
			d.flip(t, b, root)
			c := reader(t, h2)
			for _, r := range []read{r, whole} {
				o := r.do(t, c, b, root)
				if o.err != nil || o.resp.StatusCode >= http.StatusBadRequest || !bytes.Equal(o.got, p[r.start:r.end]) {
					t.Errorf("%s, %s: %s, %d bytes, %v", d.name, r.name, o.resp.Status, len(o.got), o.err)
				}
			}
			testkit.Eventually(t, "its repair",
				func() bool { return metric(t, b, `repair_objects_total{kind="damage",outcome="ok"}`) != repaired })
		}
	}
	if n := metric(t, b, "store_corrupt_objects"); n != 0 {
		t.Errorf("%d objects are marked still", n)
	}
}

// TestDamageUnderTheHotTier: an object in RAM is answered from there, whatever
// happens to the disk under it.
func TestDamageUnderTheHotTier(t *testing.T) {
	noLeaks(t)
	n := start(t, nil)
	root, p := addBytes(t, n, 250, 100_000)
	testkit.Eventually(t, "it to be in RAM", func() bool {
		if code, _, got, err := fetchHTTP(t, n, root); code != http.StatusOK || err != nil || !bytes.Equal(got, p) {
			t.Fatalf("%d, %d bytes, %v", code, len(got), err)
		}
		return metric(t, n, "store_hot_hits_total") > 0
	})
	damage{at: 1000}.flip(t, n, root)
	for range 3 {
		if code, _, got, err := fetchHTTP(t, n, root); code != http.StatusOK || err != nil || !bytes.Equal(got, p) {
			t.Errorf("%d, %d bytes, %v", code, len(got), err)
		}
	}
}
