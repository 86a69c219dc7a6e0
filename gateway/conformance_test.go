package gateway

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"allium/gateway/api"
	"allium/gateway/exchange"
	"allium/gateway/server"
	"allium/protocols/b3"
	"allium/protocols/bao"
)

// asked is a line of the conformance tables: what a client sends on a
// connection of its own, and what has to come back.
type asked struct {
	rfc  string   // what decides; "Go:" before it where net/http answers and the gateway is not asked
	ask  string   // method and target, or, where it has a line end, all bytes of the request
	with []string // lines of the header
	code int      // of the final answer; 0: the connection ends without one

	reason string // X-Reason, of a problem of the gateway
	want   string // lines of the answer's header, parted by " | "; "Name:" is one that is not there
	holds  string // "=whole body" or "~part of it"; of HEAD none is expected

	closes bool // no further request is answered on the connection
}

// world is what the tables ask.
type world struct {
	*testNode
	names *strings.Replacer

	mu       sync.Mutex
	smuggled []string // requests that came out of the body of another one
}

const (
	helloText = "hello, world\n"
	pdfText   = "%PDF-1.7 etc"
)

// newWorld is a gateway with an object of each kind. In a request and its
// answer {text} is the path of one, {text.b3} its address, {text.tag} its ETag.
func newWorld(t *testing.T, opts ...option) *world {
	t.Helper()
	w := &world{}
	opts = append(opts, func(c *Config, _ *server.AdminConfig) { c.Rate = 0 })
	w.testNode = startWith(t, hooks{params: func(p *server.Params) {
		inner := p.Wrap
		p.Wrap = func(of server.Role, h http.Handler) http.Handler {
			h = inner(of, h)
			return http.HandlerFunc(func(hw http.ResponseWriter, r *http.Request) {
				if strings.Contains(r.RequestURI, "smuggled") {
					w.mu.Lock()
					w.smuggled = append(w.smuggled, r.Method+" "+r.RequestURI)
					w.mu.Unlock()
				}
				h.ServeHTTP(hw, r)
			})
		}
	}}, opts...)
	w.world(t)
	return w
}

func (w *world) world(t *testing.T) {
	big := patterned(3*b3.GroupSize + 100)
	of := map[string]b3.Root{
		"text": w.objects.put([]byte(helloText)), "empty": w.objects.put(nil), "big": w.objects.put(big),
		"pdf": w.objects.put([]byte(pdfText)), "digits": w.objects.put([]byte(digits)),
		"html": w.objects.put([]byte("<!DOCTYPE html><p>x")), "none": b3.Sum([]byte("nobody has this")),
		"remote": w.objects.add(&fakeObject{data: []byte("far away"), remote: true}),
		"new":    b3.Sum([]byte("hello")),
	}
	dir := w.objects.tree(t, site)
	file := b3.Sum([]byte(site["readme.txt"]))
	var names []string
	add := func(name, value string) { names = append(names, "{"+name+"}", value) }
	for name, root := range of {
		add(name, "/o/"+root.String())
		add(name+".b3", root.String())
		add(name+".tag", exchange.ETag(root))
		add(name+".hex", root.Hex())
		add(name+".HEX", strings.ToUpper(root.Hex()))
	}
	add("dir", "/b3/"+dir.String())
	add("dir.b3", dir.String())
	add("dir.HEX", strings.ToUpper(dir.Hex()))
	add("file", "/b3/"+dir.String()+"/readme.txt")
	add("file.tag", exchange.ETag(file))
	add("index.tag", exchange.ETag(b3.Sum([]byte(site["docs/index.html"]))))
	add("put", "Authorization: Bearer may-put,pin")
	add("bao", bao.MediaType)
	add("bao.type", "Content-Type: "+bao.MediaType)
	add("upload", "/u/"+strings.Repeat("0", 31)+"1") // which openUpload makes
	w.names = strings.NewReplacer(names...)
}

// openUpload begins {upload}, of 5 bytes.
func (w *world) openUpload(t *testing.T) {
	t.Helper()
	if id := begin(t, w.testNode, 5, ""); id != "/u/"+strings.Repeat("0", 31)+"1" &&
		!strings.HasSuffix(id, strings.Repeat("0", 31)+"1") {
		t.Fatalf("the upload is %s", id)
	}
}

// bytes of the request.
func (w *world) bytes(e asked) (method, raw string) {
	raw = w.names.Replace(e.ask)
	method, _, _ = strings.Cut(raw, " ")
	if strings.Contains(raw, "\n") {
		return method, raw
	}
	var b strings.Builder
	b.WriteString(raw + " HTTP/1.1\r\nHost: gateway.test\r\n")
	for _, line := range e.with {
		b.WriteString(w.names.Replace(line) + "\r\n")
	}
	return method, b.String() + "\r\n"
}

// conform plays tables, each line on its own connection to addr.
func (w *world) conform(t *testing.T, table []asked) {
	t.Helper()
	addr := strings.TrimPrefix(w.Addrs().Gateway, "http://")
	for _, e := range table {
		w.play(t, addr, e)
		if method, _, _ := strings.Cut(e.ask, " "); method == http.MethodGet && e.code != 0 &&
			e.code != http.StatusMethodNotAllowed && !strings.HasPrefix(e.rfc, "Go:") &&
			!strings.Contains(e.ask, "\n") {
			w.sameHead(t, addr, e)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.smuggled) > 0 {
		t.Errorf("answered from within another request: %q", w.smuggled)
	}
}

// got is what came back.
type got struct {
	code   int // 0: nothing
	header http.Header
	body   string
	open   bool // a further request was answered
	rest   string

	renamed int // bytes by which nameBoundary made the body longer
}

// nameBoundary gives the boundary of a multipart answer, which is another each
// time, the name {boundary}.
func (g *got) nameBoundary() {
	if m := boundaryForm.FindStringSubmatch(g.header.Get("Content-Type")); m != nil {
		g.header.Set("Content-Type", m[1]+"{boundary}")
		g.body = strings.ReplaceAll(g.body, m[2], "{boundary}")
		g.renamed = strings.Count(g.body, "{boundary}") * (len("{boundary}") - len(m[2]))
	}
}

var boundaryForm = regexp.MustCompile("^(multipart/byteranges; boundary=)([0-9a-f]{16})$")

// probe is asked after each asked, to see whether the connection goes on.
const probe = "GET /healthz HTTP/1.1\r\nHost: probe\r\nX-Corr-ID: probe\r\nConnection: close\r\n\r\n"

// final reads the answer that is not an interim one.
func final(in *bufio.Reader, method string) (got, error) {
	for {
		resp, err := http.ReadResponse(in, &http.Request{Method: method})
		if err != nil {
			return got{}, err
		}
		p, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode >= http.StatusOK {
			g := got{code: resp.StatusCode, header: resp.Header, body: string(p)}
			g.nameBoundary()
			return g, err
		}
	}
}

// send plays a request and then the probe.
func send(t *testing.T, addr, method, raw string) (g got) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience)) // a hang is a failure
	_, _ = io.WriteString(c, raw)               // who refuses early does not read on
	in := bufio.NewReader(c)
	if _, err = in.Peek(1); err == nil {
		if g, err = final(in, method); err != nil {
			t.Errorf("%s: %v after %d bytes", exchange.Clip(raw), err, len(g.body))
		}
	}
	_, _ = io.WriteString(c, probe)
	rest, err := io.ReadAll(in)
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		t.Errorf("%s: the connection neither ends nor goes on", exchange.Clip(raw))
	}
	g.rest = string(rest)
	g.open = strings.HasPrefix(g.rest, "HTTP/1.1 200 OK\r\n") && strings.Contains(g.rest, "X-Corr-Id: probe\r\n") &&
		strings.Count(g.rest, "HTTP/1.1") == 1
	return g
}

func (w *world) play(t *testing.T, addr string, e asked) {
	t.Helper()
	method, raw := w.bytes(e)
	g := send(t, addr, method, raw)
	bad := func(format string, args ...any) {
		t.Helper()
		t.Errorf("%s (%s)\n%q\n%s\nanswer %d %v %.300q", e.ask, e.rfc, exchange.Clip(strings.Join(e.with, "; ")),
			fmt.Sprintf(format, args...), g.code, g.header, g.body)
	}
	switch {
	case e.code == 0 && (g.code != 0 || g.open || g.rest != ""):
		bad("there is an answer (%q)", g.rest)
		return
	case e.code == 0:
		return
	case g.code == 0:
		bad("there is no answer")
		return
	case g.code != e.code:
		bad("want %d", e.code)
		return
	case g.open == e.closes || !g.open && g.rest != "":
		bad("the connection goes on: %t, want %t; %q", g.open, !e.closes, g.rest)
	}
	for _, why := range w.check(e, method, g) {
		bad("%s", why)
	}
}

// check holds an answer against its line, and against what holds for all.
func (w *world) check(e asked, method string, g got) (bad []string) {
	say := func(format string, args ...any) { bad = append(bad, fmt.Sprintf(format, args...)) }
	h := g.header
	ours := h.Get("X-Corr-Id") != ""
	if ours == strings.HasPrefix(e.rfc, "Go:") {
		say("answered by the gateway: %t", ours)
	}
	if !ours {
		return bad // net/http's: a line of text
	}
	for name, values := range h {
		for _, v := range values {
			if strings.Trim(v, printable) != "" {
				say("%s: %q is not plain", name, v)
			}
		}
	}
	if got := h.Get("X-Reason"); got != e.reason {
		say("reason %q, want %q", got, e.reason)
	}
	if e.want != "" {
		for line := range strings.SplitSeq(w.names.Replace(e.want), " | ") {
			name, value, ok := strings.Cut(line, ":")
			if got := strings.Join(h.Values(name), ", "); !ok || got != strings.TrimSpace(value) {
				say("%s: %q, want%s", name, got, value)
			}
		}
	}
	if n := h.Get("Content-Length"); n != "" && method != http.MethodHead && n != strconv.Itoa(len(g.body)-g.renamed) {
		say("%d bytes, Content-Length %s", len(g.body)-g.renamed, n)
	}
	if method == http.MethodHead {
		return bad
	}
	if want, ok := strings.CutPrefix(w.names.Replace(e.holds), "="); ok && g.body != want {
		say("body %.200q, want %.200q", g.body, want)
	}
	if want, ok := strings.CutPrefix(w.names.Replace(e.holds), "~"); ok && !strings.Contains(g.body, want) {
		say("no %q in %.200q", want, g.body)
	}
	if e.reason != "" {
		for _, why := range badProblem(g, e.reason) {
			say("%s", why)
		}
	}
	return bad
}

// printable is all that a header of the gateway is made of, and its texts but
// for what is not ASCII.
var printable = func() string {
	var b strings.Builder
	for c := byte(' '); c <= '~'; c++ {
		b.WriteByte(c)
	}
	return b.String()
}()

// badProblem says what is wrong with the problem of an answer.
func badProblem(g got, reason string) (bad []string) {
	if ct := g.header.Get("Content-Type"); ct != exchange.MediaProblem {
		bad = append(bad, "Content-Type "+ct)
	}
	if cc := g.header.Get("Cache-Control"); cc != "no-store" {
		bad = append(bad, "Cache-Control "+cc)
	}
	var p api.Problem
	d := json.NewDecoder(strings.NewReader(g.body))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil || p.Reason != reason || p.Status != g.code || p.Detail == "" {
		bad = append(bad, fmt.Sprintf("%v in %q", err, g.body))
	}
	if i := strings.IndexFunc(p.Detail, unprintable); i >= 0 {
		bad = append(bad, fmt.Sprintf("%q has what a terminal obeys", p.Detail))
	}
	return bad
}

// rangeLine is the header Range of a request.
var rangeLine = regexp.MustCompile(`(?mi)^Range:.*\r\n`)

// sameHead holds the answer to HEAD against the one to GET (RFC 9110 §9.3.2):
// the same header, and no body. Of HEAD a Range means nothing (§14.2).
func (w *world) sameHead(t *testing.T, addr string, e asked) {
	t.Helper()
	_, raw := w.bytes(e)
	get := send(t, addr, http.MethodGet, rangeLine.ReplaceAllString(raw, ""))
	head := send(t, addr, http.MethodHead, "HEAD"+strings.TrimPrefix(raw, "GET"))
	if get.code == 0 || head.code != get.code || head.body != "" || head.open != get.open {
		t.Errorf("HEAD of %s: %+v, GET %+v", e.ask, head, get)
		return
	}
	for _, name := range []string{"Date", "X-Corr-Id"} {
		get.header.Del(name)
		head.header.Del(name)
	}
	if strings.HasPrefix(get.header.Get("Etag"), "W/") {
		get.header.Del("Content-Length") // of a listing it is known when it is made, which HEAD does not
	}
	for _, a := range []struct{ this, other http.Header }{{get.header, head.header}, {head.header, get.header}} {
		for name, values := range a.this {
			if !slices.Equal(values, a.other.Values(name)) {
				t.Errorf("%s %q: %s is %q of one and %q of the other method", e.ask, e.with, name,
					values, a.other.Values(name))
			}
		}
	}
}

// conformanceTables are all lines but those that are made of lists, and those
// that want another configuration.
var conformanceTables = [][]asked{rangeTable, conditionTable, methodTable, pathTable, encodingTable, framingTable}

// TestConformanceSize: what the project promises to check of HTTP.
func TestConformanceSize(t *testing.T) {
	t.Parallel()
	var n, goes int
	seen := map[string]bool{}
	for _, table := range conformanceTables {
		for _, e := range table {
			n++
			if strings.HasPrefix(e.rfc, "Go:") {
				goes++
			}
			key := fmt.Sprintf("%q", []any{e.ask, e.with})
			if seen[key] {
				t.Errorf("twice: %s", key)
			}
			seen[key] = true
			if e.rfc == "" {
				t.Errorf("who says so? %s", key)
			}
		}
	}
	t.Logf("%d exchanges, of which net/http alone decides %d", n, goes)
	if n < 150 {
		t.Errorf("%d exchanges", n)
	}
}

// TestPipelining: requests in one packet are answered in their order.
func TestPipelining(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := dialRaw(t, w.testNode)
	var all bytes.Buffer
	for i, target := range []string{"{text}", "{none}", "{big}", "{empty}", "/healthz", "{file}"} {
		fmt.Fprintf(&all, "GET %s HTTP/1.1\r\nHost: x\r\nX-Corr-ID: n%d\r\n\r\n", w.names.Replace(target), i)
	}
	if _, err := c.Write(all.Bytes()); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(c)
	for i, want := range []int{200, 404, 200, 200, 200, 200} {
		resp, err := http.ReadResponse(in, &http.Request{Method: http.MethodGet})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != want ||
			resp.Header.Get("X-Corr-Id") != "n"+strconv.Itoa(i) {
			t.Errorf("answer %d: %s %v, %v", i, resp.Status, resp.Header, err)
		}
		resp.Body.Close()
	}
}
