package gateway

import (
	"bufio"
	"bytes"
	"encoding/json"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"allium/gateway/client"
	"allium/protocols/b3"
	"allium/protocols/bao"
	"allium/protocols/status"
)

var (
	rangeForm = regexp.MustCompile(`(?i)^\s*bytes\s*=(.*)$`)
	partForm  = regexp.MustCompile(`^(?:([0-9]+)-([0-9]*)|-([0-9]+))$`)
)

// referenceRanges is what RFC 9110 §14 says of a Range header, by regular
// expressions and numbers of any length: ranges in the words of parsed.
func referenceRanges(header string, size int64, most int) string {
	m := rangeForm.FindStringSubmatch(header)
	if m == nil {
		return "none"
	}
	var specs []string
	for _, p := range strings.Split(m[1], ",") {
		if p = strings.Trim(p, " \t"); p != "" {
			specs = append(specs, p)
		}
	}
	if len(specs) == 0 || len(specs) > max(most, 1) {
		return "bad"
	}
	number := func(s string) *big.Int { n, _ := new(big.Int).SetString(s, 10); return n }
	whole, one, sum := big.NewInt(size), big.NewInt(1), new(big.Int)
	var of []string
	all := false
	for _, spec := range specs {
		m := partForm.FindStringSubmatch(spec)
		if m == nil {
			return "bad"
		}
		from, to := new(big.Int), new(big.Int).Sub(whole, one)
		switch {
		case m[3] != "":
			count := number(m[3])
			all = all || size == 0 && count.Sign() > 0
			if count.Cmp(whole) < 0 {
				from.Sub(whole, count)
			}
		case m[2] == "":
			from = number(m[1])
		default:
			from = number(m[1])
			last := number(m[2])
			if last.Cmp(from) < 0 {
				return "bad"
			}
			if last.Cmp(to) < 0 {
				to = last
			}
		}
		if to.Cmp(from) >= 0 {
			end := new(big.Int).Add(to, one)
			sum.Add(sum, new(big.Int).Sub(end, from))
			of = append(of, from.String()+"-"+end.String())
		}
	}
	switch {
	case sum.Cmp(whole) > 0:
		return "bad"
	case all:
		return "none"
	case len(of) == 0:
		return "bad"
	}
	return strings.Join(of, " ")
}

func FuzzRangeReference(f *testing.F) {
	for _, e := range append(rangeTable, multiRangeTable...) {
		for _, line := range e.with {
			if v, ok := strings.CutPrefix(line, "Range:"); ok {
				f.Add(strings.TrimSpace(v), int64(13), 0)
				f.Add(strings.TrimSpace(v), int64(1000), 4)
			}
		}
	}
	f.Add("bytes=-5", int64(0), 0)
	f.Add("bytes=0-0,-5", int64(0), 2)
	f.Add("bytes=9223372036854775806-", int64(1<<63-1), 0)
	f.Add("bytes=0-,0-", int64(1<<63-1), 2)
	f.Fuzz(func(t *testing.T, header string, size int64, most int) {
		if size < 0 || strings.Contains(header, "\n") { // which "." does not match, and no header has
			return
		}
		if got, want := parsed(header, size, most), referenceRanges(header, size, most); got != want {
			t.Errorf("%q of %d, at most %d: %s, want %s", header, size, most, got, want)
		}
	})
}

// FuzzConditions compares with http.ServeContent.
func FuzzConditions(f *testing.F) {
	const etag = `"b3:aa"`
	for _, s := range []string{`*`, `"b3:aa"`, `W/"b3:aa"`, `"x", "b3:aa"`, `"x y", "b3:aa"`, `"x`, `,,"b3:aa"`, `W/`, `"x""b3:aa"`, "\"\x7f\",\"b3:aa\""} {
		f.Add(s, "", "")
		f.Add("", s, s)
		f.Add(s, s, s)
	}
	f.Fuzz(func(t *testing.T, im, inm, ir string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Header.Set("Range", "bytes=1-2")
		for name, v := range map[string]string{"If-Match": im, "If-None-Match": inm, "If-Range": ir} {
			if strings.Trim(v, " \t") != v || strings.ContainsAny(v, "\r\n\x00") {
				return // no value of a header
			}
			if v != "" {
				r.Header.Set(name, v)
			}
		}
		rec := httptest.NewRecorder()
		rec.Header().Set("ETag", etag)
		http.ServeContent(rec, r, "", time.Time{}, strings.NewReader("hello"))
		got := evaluate(r, etag).Code()
		want := rec.Code
		if want == http.StatusPartialContent {
			want = http.StatusOK
		}
		if got != want {
			t.Errorf("If-Match: %q, If-None-Match: %q: %d, net/http says %d", im, inm, got, rec.Code)
		}
		if rangeApplies(r, etag) && rec.Code == http.StatusOK {
			t.Errorf("If-Range: %q lets a range stand, and net/http does not", ir)
		}
		if knownFresh(r, etag) && got != http.StatusNotModified {
			t.Errorf("%q, %q: known to be fresh, but %d", im, inm, got)
		}
	})
}

// FuzzAccept: what is negotiated depends neither on letter case nor on how a
// list is spread over lines, and the encoding is never sent to who has not
// named it.
func FuzzAccept(f *testing.F) {
	for _, e := range encodingTable {
		for _, line := range e.with {
			if v, ok := strings.CutPrefix(line, "Accept: "); ok {
				f.Add(strings.ReplaceAll(v, "{bao}", bao.MediaType), 3)
			}
		}
	}
	f.Add(`text/html;q="0,5", `+bao.MediaType, 1)
	f.Fuzz(func(t *testing.T, accept string, at int) {
		decide := func(lines ...string) string {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
			r.Header["Accept"] = lines
			wants, negotiated, err := wantsBao(r)
			listing, listErr := listingFormat(r)
			if err != nil || listErr != nil || wants != negotiated || listing != "" && listing != "json" {
				t.Fatalf("%q: %t %t %v, %q %v", lines, wants, negotiated, err, listing, listErr)
			}
			if wants && !strings.Contains(strings.ToLower(strings.Join(lines, ",")), bao.MediaType) {
				t.Fatalf("%q: nobody asked for the encoding", lines)
			}
			if wants {
				return "bao " + listing
			}
			return listing
		}
		whole := decide(accept)
		for _, c := range []byte(accept) {
			if c >= 0x80 {
				return // letters that are not ASCII have other rules
			}
		}
		if got := decide(strings.ToUpper(accept)); got != whole {
			t.Errorf("%q: %q, in capitals %q", accept, whole, got)
		}
		if parts := strings.Split(accept, ","); len(parts) > 1 {
			at = 1 + int(uint(at)%uint(len(parts)-1))
			if got := decide(strings.Join(parts[:at], ","), strings.Join(parts[at:], ",")); got != whole {
				t.Errorf("%q: %q, in two lines %q", accept, whole, got)
			}
		}
	})
}

// FuzzJSON: a body that is read is what it says, and one that is not is the
// client's mistake.
func FuzzJSON(f *testing.F) {
	for _, s := range []string{
		`{}`, `{"corrupt":true}`, `{"corrupt":true}x`, `{"corupt":true}`, `{"links":[{"peer":"12D4","delay_ms":50,"loss":0.25}]}`, `{"rate":1e99}`, `[]`, `null`, "", "\xef\xbb\xbf{}",
		`{"clock_skew_ms":-9223372036854775808}`, strings.Repeat("[", 20_000), `{"corrupt":true,"corrupt":false}`, string(gzipped(f, []byte(`{"corrupt":true}`))),
	} {
		for _, encoding := range []string{"", "gzip", "zstd", "gzip, gzip"} {
			f.Add([]byte(s), encoding)
		}
	}
	g := decoding()
	f.Fuzz(func(t *testing.T, body []byte, encoding string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", bytes.NewReader(body))
		if encoding != "" {
			r.Header.Set("Content-Encoding", encoding)
		}
		_, v, err := readJSON[client.Faults](g, (&side{g: g}).newResponse(httptest.NewRecorder()), r)
		if err != nil {
			if o := status.Of(err); !slices.Contains([]status.Outcome{status.BadRequest, status.BodyCap, status.Unsupported}, o) {
				t.Errorf("%s: %v", o, err)
			}
			return
		}
		if err := v.Validate(); err != nil && status.Of(err) != status.BadRequest {
			t.Errorf("%+v: %v", v, err)
		}
		again, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		r = httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", bytes.NewReader(again))
		if _, _, err := readJSON[client.Faults](g, (&side{g: g}).newResponse(httptest.NewRecorder()), r); err != nil {
			t.Errorf("%s: %v", again, err)
		}
	})
}

// maze is a gateway with a directory, and all that its requests may say.
type maze struct {
	side *side
	dir  string
	said map[string]bool // bodies of content
}

func newMaze(t testing.TB) *maze {
	objects := &fakeObjects{}
	m := &maze{said: map[string]bool{}, dir: objects.tree(t, site).String()}
	for _, content := range site {
		m.said[content] = true
	}
	for _, o := range objects.m {
		m.said[string(o.data)] = true
	}
	m.side = newTestGateway(t, objects, func(c *Config, _ *AdminConfig) { c.Rate = 0 }).publicSide(nil)
	return m
}

// ask sends a target as it is, and holds the answer against what holds for all.
func (m *maze) ask(t *testing.T, target string) {
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader("GET " + target + " HTTP/1.1\r\nHost: x\r\n\r\n")))
	if err != nil || r.RequestURI != target {
		return // net/http answers
	}
	r.RemoteAddr = "192.0.2.1:1"
	rec := httptest.NewRecorder()
	m.side.ServeHTTP(rec, r.WithContext(t.Context()))
	for name, values := range rec.Header() {
		for _, v := range values {
			if strings.Trim(v, printable) != "" {
				t.Errorf("%q: %s: %q", target, name, v)
			}
		}
	}
	body := rec.Body.String()
	switch code := rec.Code; {
	case code >= http.StatusBadRequest:
		var p client.Problem
		if err := json.Unmarshal([]byte(body), &p); err != nil || strings.ContainsFunc(p.Detail, obeyed) || code >= http.StatusInternalServerError {
			t.Errorf("%q: %d %q (%v)", target, code, body, err)
		}
	case code >= http.StatusMultipleChoices:
		at := &url.URL{Scheme: "http", Host: "x", Path: r.URL.Path, RawPath: r.URL.RawPath}
		to, err := at.Parse(rec.Header().Get("Location"))
		if err != nil || to.Host != "x" || to.Scheme != "http" || !strings.HasPrefix(to.Path, "/b3/b3:") && !strings.HasPrefix(to.Path, "/o/b3:") {
			t.Errorf("%q leads to %q (%v)", target, rec.Header().Get("Location"), err)
		}
	case rec.Header().Get("Content-Security-Policy") == contentPolicy && !m.said[body]:
		t.Errorf("%q gives %q", target, body)
	}
}

// FuzzTargets: whatever is asked for, nothing outside of the tree is served,
// redirects stay here, and no error says what a terminal obeys.
func FuzzTargets(f *testing.F) {
	m := newMaze(f)
	names := strings.NewReplacer("{dir}", "/b3/"+m.dir, "{file}", "/b3/"+m.dir+"/readme.txt", "{text}", "/o/"+m.dir, "{text.hex}", m.dir[3:], "{text.HEX}", strings.ToUpper(m.dir[3:]), "{dir.b3}", m.dir, "{dir.HEX}", strings.ToUpper(m.dir[3:]))
	for _, e := range pathTable {
		_, target, _ := strings.Cut(e.ask, " ")
		target, _, _ = strings.Cut(target, " ")
		if len(target) < 1000 {
			f.Add(names.Replace(target))
		}
	}
	f.Fuzz(func(t *testing.T, target string) { m.ask(t, target) })
}

// TestMaze asks for everything that can be made of a few parts.
func TestMaze(t *testing.T) {
	t.Parallel()
	m := newMaze(t)
	parts := []string{"..", "%2e%2e", ".", "%2f", "/", "//", "%5c", `\`, "%00", "%252e", "%c0%af", "docs", "readme.txt", "up", ";", "%0d%0a", "?key=", "?format=json", "\xff", "%1b"}
	for _, base := range []string{"/", "/b3/", "/b3/" + m.dir, "/b3/" + m.dir + "/", "/o/", "/o/" + m.dir, "/u/", "/b3?key=" + m.dir, "/b3?key="} {
		for _, a := range parts {
			m.ask(t, base+a)
			for _, b := range parts {
				m.ask(t, base+a+b)
				m.ask(t, base+a+"/"+b)
			}
		}
	}
	m.ask(t, "/o/"+b3.Sum(nil).String())
}
