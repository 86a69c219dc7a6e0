package gateway

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"allium/gateway/api"
	"allium/gateway/server"
	"allium/protocols/b3"
	"allium/protocols/status"
)

var updateProblems = flag.Bool("update", false, "rewrite testdata/problems.golden")

// problemCase is one request and the cause of its problem.
type problemCase struct {
	cause   string // what is wrong, for the reader of the golden file
	method  string
	path    string
	body    string
	headers []string
	admin   bool // asks the admin listener
}

// problemWorld is a node with content that fails in every way that HTTP can report.
func problemWorld(t *testing.T) (n *testNode, roots map[string]b3.Root) {
	t.Helper()
	roots = map[string]b3.Root{}
	n, _, _ = denying(t, false, func(o *fakeObjects) []string {
		roots["file"] = o.put([]byte("hello, world"))
		roots["denied"] = o.put([]byte("denied"))
		return []string{roots["denied"].String()}
	})
	n.sent.full.set(1 << 20)
	roots["dir"] = n.objects.tree(t, map[string]string{
		"a.txt": "hello, world", "loop": "-> loop", "out": "-> ../../etc/passwd",
	})
	roots["busy search"] = b3.Sum([]byte("busy search"))
	n.index.fail = map[b3.Root]error{roots["busy search"]: status.WithLookup(status.BusyError(status.Busy,
		status.Limit{Name: "resolver.lookups", Current: 64, Cap: 64, RetryAfter: time.Second}), 0xbeef)}
	failing := func(name string, err error) {
		roots[name] = n.objects.add(&fakeObject{data: []byte(name), err: err})
	}
	failing("corrupt", status.Errorf(status.Corrupt,
		"chunk group 0 of the object does not match its address. Run `allium verify` on the node"))
	failing("upstream", status.Errorf(status.Upstream,
		"all 3 providers of the object failed. Try again, or list them with `allium providers`"))
	failing("internal", fmt.Errorf("read the segment: %w", io.ErrNoProgress))
	failing("wrapped", fmt.Errorf("open the object: %w", fmt.Errorf("ask the network: %w",
		&status.Error{Outcome: status.NoBootstrap,
			Message: "no peers yet. Check that a seed is configured (dht.bootstrap) " +
				"and reachable", LookupID: "l-17"})))
	return n, roots
}

// TestProblemSentences: each problem that HTTP answers with says in one or two sentences what
// failed, why, and what to do. testdata/problems.golden lists them; -update rewrites it.
func TestProblemSentences(t *testing.T) {
	t.Parallel()
	n, roots := problemWorld(t)
	file, dir := roots["file"].String(), roots["dir"].String()
	absent := b3.Sum([]byte("absent"))
	put := []string{"Authorization", "Bearer may-put"}
	cases := []problemCase{
		{cause: "a short address", path: "/o/" + file[:40]},
		{cause: "a long address", path: "/o/" + file + "00"},
		{cause: "a digit that is not hexadecimal", path: "/o/b3:" + strings.Repeat("g", 64)},
		{cause: "a short address without b3:", path: "/o/" + file[3:40]},
		{cause: "a slash inside a name", path: "/b3/" + dir + "/a%2fb"},
		{cause: "an address in capitals in a header", method: "POST", path: "/u",
			headers: append([]string{"Upload-Length", "12", "Upload-Expect", strings.ToUpper(file)}, put...)},
		{cause: "a path with ..", path: "/b3/" + dir + "/a/%2e%2e/b"},
		{cause: "an unknown format", path: "/b3/" + dir + "/?format=xml"},
		{cause: "an unknown parameter", path: "/api/v1/stat?kye=x", admin: true},
		{cause: "a missing parameter", path: "/api/v1/stat", admin: true},
		{cause: "a Request-Timeout that is no number", path: "/o/" + file,
			headers: []string{"Request-Timeout", "soon"}},
		{cause: "JSON with an unknown member", method: "POST", path: "/admin/pin", body: `{"kee":"x"}`, admin: true,
			headers: []string{"Authorization", "Bearer may-pin", "Content-Type", "application/json"}},
		{cause: "a body that is not gzip", method: "POST", path: "/o", body: "no gzip",
			headers: append([]string{"Content-Encoding", "gzip"}, put...)},
		{cause: "an unsupported coding", method: "POST", path: "/o", body: "x",
			headers: append([]string{"Content-Encoding", "br"}, put...)},
		{cause: "no capability", method: "POST", path: "/o", body: "x"},
		{cause: "a scheme that is not Bearer", method: "POST", path: "/o", body: "x",
			headers: []string{"Authorization", "Basic eDp5"}},
		{cause: "a capability for another operation", method: "POST", path: "/o", body: "x",
			headers: []string{"Authorization", "Bearer may-fetch"}},
		{cause: "a capability for fewer bytes", method: "POST", path: "/o", body: "twelve bytes",
			headers: []string{"Authorization", "Bearer may-put<=5"}},
		{cause: "a service worker", path: "/o/" + file, headers: []string{"Service-Worker", "script"}},
		{cause: "the admin listener under another name", path: "/api/v1/id", headers: []string{"Host", "evil.example"},
			admin: true},
		{cause: "a page of another site asks the admin listener", path: "/api/v1/id",
			headers: []string{"Sec-Fetch-Site", "cross-site"}, admin: true},
		{cause: "denied content", path: "/o/" + roots["denied"].String()},
		{cause: "no such page", path: "/nothing/here"},
		{cause: "no provider has it", path: "/o/" + absent.String()},
		{cause: "no provider is found", path: "/resolve/" + absent.String()},
		{cause: "a search that failed", path: "/providers/" + roots["busy search"].String()},
		{cause: "a limit above the highest", path: "/providers/" + file + "?limit=33"},
		{cause: "a duration that is none", path: "/resolve/" + file + "?min_freshness=soon"},
		{cause: "a region that is too long", path: "/resolve/" + file + "?region=" + strings.Repeat("r", 33)},
		{cause: "a misspelt parameter of a search", path: "/resolve/" + file + "?limt=5"},
		{cause: "a key that is no address", path: "/resolve/b3:12"},
		{cause: "no such entry", path: "/b3/" + dir + "/b.txt"},
		{cause: "a path below a file", path: "/b3/" + file + "/x"},
		{cause: "a file with a slash", path: "/b3/" + dir + "/a.txt/"},
		{cause: "a link that leads outside", path: "/b3/" + dir + "/out"},
		{cause: "a link to itself", path: "/b3/" + dir + "/loop"},
		{cause: "no such upload", method: "HEAD", path: "/u/00000000000000000000000000000000", headers: put},
		{cause: "a method that the path does not have", method: "DELETE", path: "/o/" + file},
		{cause: "bytes that are another object", method: "PUT", path: "/o/" + absent.String(),
			body: "other", headers: put},
		{cause: "If-Match names another object", path: "/o/" + file, headers: []string{"If-Match", `"x"`}},
		{cause: "only-if-cached of what is not here", path: "/o/" + absent.String(),
			headers: []string{"Cache-Control", "only-if-cached"}},
		{cause: "a body where none is read", method: "POST", path: "/admin/drain?", body: strings.Repeat(" ", 2<<20),
			headers: []string{"Authorization", "Bearer may-drain", "Content-Type", "application/json"}, admin: true},
		{cause: "zeros that decompress to much more", method: "POST", path: "/o",
			body: string(gzipped(t, make([]byte, 10<<20))), headers: append([]string{"Content-Encoding", "gzip"},
				put...)},
		{cause: "a range beyond the end", path: "/o/" + file, headers: []string{"Range", "bytes=12-"}},
		{cause: "two ranges", path: "/o/" + file, headers: []string{"Range", "bytes=0-1,4-5"}},
		{cause: "a range that ends before it begins", path: "/o/" + file, headers: []string{"Range", "bytes=5-2"}},
		{
			cause: "an upload larger than the space", method: "POST", path: "/o", body: strings.Repeat("x", 2<<20),
			headers: put,
		},
		{cause: "a limit, from the node", path: "/api/v1/stat?key=fail", admin: true},
		{cause: "a panic", path: "/o/" + n.objects.add(&fakeObject{data: []byte("panics"), panics: true}).String()},
		{cause: "a fault inside the node", path: "/o/" + roots["internal"].String()},
		{cause: "bytes that do not match their address", path: "/o/" + roots["corrupt"].String()},
		{cause: "providers that failed", path: "/o/" + roots["upstream"].String()},
		{cause: "a chain of causes with a lookup", path: "/o/" + roots["wrapped"].String()},
	}
	var got bytes.Buffer
	for _, c := range cases {
		base := n.Addrs().Gateway
		if c.admin {
			base = n.Addrs().Admin
		}
		method := c.method
		if method == "" {
			method = http.MethodGet
		}
		var body io.Reader
		if c.body != "" {
			body = strings.NewReader(c.body)
		}
		a := doBody(t, method, base+c.path, body, append([]string{"X-Corr-ID", "5f0c2a1b9d3e4f60"}, c.headers...)...)
		cause := c.cause
		if c.admin {
			cause += " (admin)"
		}
		writeProblem(t, &got, cause, a)
	}
	checkProblems(t, &got)

	slow := start(t, func(c *Config, _ *server.AdminConfig) {
		c.Content.FirstByteTimeout = 50 * time.Millisecond
	})
	stalled := slow.objects.add(&fakeObject{data: []byte("stalled"), gate: make(chan struct{})})
	writeProblem(t, &got, "content that stalls", do(t, "GET", slow.Addrs().Gateway+"/o/"+stalled.String()))
	waits := n.objects.add(&fakeObject{data: []byte("waits"), gate: make(chan struct{})})
	writeProblem(t, &got, "a Request-Timeout that is over",
		do(t, "GET", n.Addrs().Gateway+"/o/"+waits.String(), "Request-Timeout", "0.01"))

	rated := newTestGateway(t, &fakeObjects{}, func(c *Config, _ *server.AdminConfig) {
		c.Rate, c.Burst, c.RateWait = 1, 1, 0
	})
	for range 2 {
		rec := serve(rated.Handler(server.Public), "GET", "/o/"+absent.String(), "192.0.2.1:1", nil)
		if rec.Code == http.StatusTooManyRequests {
			writeProblem(t, &got, "too many requests", answer{Response: rec.Result(), body: rec.Body.String()})
		}
	}
	if err := rated.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	rec := serve(rated.Handler(server.Public), "GET", "/o/"+absent.String(), "192.0.2.2:1", nil)
	writeProblem(t, &got, "the node drains", answer{Response: rec.Result(), body: rec.Body.String()})

	const golden = "testdata/problems.golden"
	if *updateProblems {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil { //nolint:gosec // a golden file
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, got.Bytes()) {
		t.Errorf("%s differs; read the sentences, then run with -update:\n%s", golden, got.Bytes())
	}
}

// varying matches what differs between runs: waits, ports and counts of a limit.
var varying = regexp.MustCompile(`(in|within|of) [0-9.]+(ms|s)\b|127\.0\.0\.1:[0-9]+`)

// writeProblem writes one case to the golden file.
func writeProblem(t *testing.T, to io.Writer, cause string, a answer) {
	t.Helper()
	if a.Request != nil && a.Request.Method == http.MethodHead {
		fmt.Fprintf(to, "# %s\n%d %s\n\n", cause, a.StatusCode, a.Header.Get("X-Reason"))
		return
	}
	var p api.Problem
	if err := json.Unmarshal([]byte(a.body), &p); err != nil {
		t.Errorf("%s: %s %.200q: %v", cause, a.Status, a.body, err)
		return
	}
	sentence := varying.ReplaceAllStringFunc(p.Detail, func(s string) string {
		if verb, _, ok := strings.Cut(s, " "); ok {
			return verb + " TIME"
		}
		return "127.0.0.1:PORT"
	})
	fmt.Fprintf(to, "# %s\n%d %s: %s\n", cause, a.StatusCode, p.Reason, sentence)
	if p.LookupID != "" {
		fmt.Fprintf(to, "lookup_id %s\n", p.LookupID)
	}
	fmt.Fprintln(to)
}

// packageNames are what no sentence begins a clause with.
var packageNames = []string{
	"gateway", "store", "resolver", "b3", "bao", "manifest", "dht", "session", "object", "status", "upload", "content",
}

// checkProblems checks the form of every sentence.
func checkProblems(t *testing.T, list *bytes.Buffer) {
	t.Helper()
	admin := false // its clients turn the sentence back into an error, so it has no final period
	for line := range strings.SplitSeq(list.String(), "\n") {
		if strings.HasPrefix(line, "#") {
			admin = strings.HasSuffix(line, "(admin)")
			continue
		}
		code, sentence, ok := strings.Cut(line, ": ")
		if !ok {
			continue
		}
		first, _, _ := strings.Cut(sentence, ": ")
		if slices.Contains(packageNames, first) || !admin && !strings.HasSuffix(sentence, ".") {
			t.Errorf("%s: %q begins with a package, or does not end with a period", code, sentence)
		}
	}
}
