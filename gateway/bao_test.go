package gateway

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"allium/gateway/exchange"
	"allium/protocols/b3"
	"allium/protocols/bao"
	"allium/protocols/status"
)

// patterned is n bytes of which no two groups are alike.
func patterned(n int) []byte {
	p := make([]byte, n)
	x := uint32(n)*2654435761 + 1
	for i := range p {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		p[i] = byte(x)
	}
	return p
}

// proved decodes an encoding of r, which must be that of root.
func proved(t testing.TB, root b3.Root, r b3.Range, enc string) []byte {
	t.Helper()
	p, err := io.ReadAll(bao.NewDecoder(root, r, strings.NewReader(enc)))
	if err != nil {
		t.Error(err)
	}
	return p
}

// TestEncoding: the verified encoding of objects and ranges, by every way to ask
// for it, with the header of a representation of its own.
func TestEncoding(t *testing.T) {
	t.Parallel()
	n := start(t)
	const size = 3*b3.GroupSize + 100
	data := patterned(size)
	root, empty := n.objects.put(data), n.objects.put(nil)
	url := n.Addrs().Gateway + "/o/" + root.String()
	place := "/o/" + root.String() + "?format=bao"
	const forever = "public, max-age=31536000, immutable"
	for _, c := range []struct {
		name    string
		query   string
		headers []string
		want    b3.Range // what it is the encoding of
		code    int
		tag     string // behind the address
		vary    string
		place   string
		cache   string
		content string // Content-Range
	}{
		{name: "whole", query: "?format=bao", want: b3.Range{End: -1}},
		{name: "by Accept", headers: []string{"Accept", bao.MediaType}, want: b3.Range{End: -1}, vary: "Range Accept"},
		{
			name:    "by Accept, among others",
			headers: []string{"Accept", "text/html;q=0.5, " + bao.MediaType + ";q=0.9", "Accept", "*/*;q=0.1"},
			want:    b3.Range{End: -1}, vary: "Range Accept",
		},
		{
			name: "range in the query", query: "?format=bao&bytes=70000-70009",
			want: b3.Range{Start: 70000, End: 70010},
			tag:  ";bao=70000-70009", place: "&bytes=70000-70009",
		},
		{
			name: "open range", query: "?format=bao&bytes=100-", want: b3.Range{Start: 100, End: -1},
			tag: fmt.Sprintf(";bao=100-%d", size-1), place: fmt.Sprintf("&bytes=100-%d", size-1),
		},
		{
			name: "suffix", query: "?format=bao&bytes=-10", want: b3.Range{Start: -10, End: -1},
			tag: fmt.Sprintf(";bao=%d-%d", size-10, size-1), place: fmt.Sprintf("&bytes=%d-%d", size-10, size-1),
		},
		{
			name: "clamped", query: "?format=bao&bytes=5-99999999999999999999999", want: b3.Range{Start: 5, End: -1},
			tag: fmt.Sprintf(";bao=5-%d", size-1), place: fmt.Sprintf("&bytes=5-%d", size-1),
		},
		{
			name: "range in the header", query: "?format=bao", headers: []string{"Range", "bytes=65536-65536"},
			want: b3.Range{Start: 65536, End: 65537},
			code: 206, tag: ";bao=65536-65536", place: "&bytes=65536-65536", cache: "no-store",
			content: fmt.Sprintf("bytes 65536-65536/%d", size),
		},
		{
			name: "by Accept, range in the header", headers: []string{
				"Range", "Bytes=0-9", "Accept", bao.MediaType,
			}, want: b3.Range{End: 10},
			code: 206, tag: ";bao=0-9", place: "&bytes=0-9", cache: "no-store",
			content: fmt.Sprintf("bytes 0-9/%d", size),
			vary:    "Range Accept",
		},
		{
			name: "the header's range, if it is still the same", query: "?format=bao", headers: []string{
				"Range", "bytes=0-9", "If-Range", baoTag(root, "=0-9"),
			},
			want: b3.Range{End: 10}, code: 206, tag: ";bao=0-9", place: "&bytes=0-9", cache: "no-store",
			content: fmt.Sprintf("bytes 0-9/%d", size),
		},
		{
			name: "goes on with a file of the encoding", query: "?format=bao",
			headers: []string{"Range", "bytes=9-", "If-Range", baoTag(root, "")}, want: b3.Range{End: -1},
		},
		{
			name: "both ranges", query: "?format=bao&bytes=1-2", headers: []string{"Range", "bytes=5-6"},
			want: b3.Range{Start: 1, End: 3}, tag: ";bao=1-2", place: "&bytes=1-2",
		},
		{name: "another unit", query: "?format=bao", headers: []string{"Range", "items=5-6"}, want: b3.Range{End: -1}},
		{
			name: "another tag", query: "?format=bao", headers: []string{"If-None-Match", exchange.ETag(root)},
			want: b3.Range{End: -1},
		},
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			if method == http.MethodHead && c.code == http.StatusPartialContent {
				continue // HEAD ignores Range
			}
			a := do(t, method, url+c.query, c.headers...)
			name := c.name + ", " + method
			if want := max(c.code, 200); a.StatusCode != want || a.err != nil {
				t.Errorf("%s: %s (%v) %s", name, a.Status, a.err, a.body)
				continue
			}
			length := int64(len(a.body))
			if method == http.MethodGet {
				r := c.want
				wanted := data[max(0, r.Start):]
				if r.Start < 0 {
					wanted = data[size+r.Start:]
				} else if r.End >= 0 {
					wanted = data[r.Start:r.End]
				}
				if got := proved(t, root, r, a.body); !bytes.Equal(got, wanted) {
					t.Errorf("%s: %d bytes, want %d", name, len(got), len(wanted))
				}
			} else {
				r := c.want
				if r.Start < 0 {
					r.Start += size
				}
				length, _ = bao.Len(size, r)
			}
			if c.tag == "" {
				c.tag = ";bao"
			}
			for header, want := range map[string]string{
				"Content-Type": bao.MediaType, "Content-Length": fmt.Sprint(length), "Content-Range": c.content,
				"Accept-Ranges": "none",
				"ETag":          `"` + root.String() + c.tag + `"`, "Content-Location": place + c.place, "Link": "",
				"X-Content-Type-Options": "nosniff",
			} {
				if got := a.Header.Get(header); got != want {
					t.Errorf("%s: %s: %q, want %q", name, header, got, want)
				}
			}
			cache, vary := forever, "Range"
			if c.cache != "" {
				cache = c.cache
			}
			if c.vary != "" {
				vary = c.vary
			}
			if got := a.Header.Get("Cache-Control"); got != cache {
				t.Errorf("%s: Cache-Control %q, want %q", name, got, cache)
			}
			if got := strings.Join(a.Header.Values("Vary"), " "); got != vary {
				t.Errorf("%s: Vary %q, want %q", name, got, vary)
			}
		}
	}

	// The empty object has one group, without bytes, in every form.
	for _, q := range []string{"?format=bao", "?format=bao&bytes=-5"} {
		a := do(t, "GET", n.Addrs().Gateway+"/o/"+empty.String()+q)
		if a.StatusCode != http.StatusOK || a.body != strings.Repeat("\x00", 8) ||
			len(proved(t, empty, b3.Range{End: -1}, a.body)) != 0 {
			t.Errorf("the empty object%s: %s %q", q, a.Status, a.body)
		}
	}
	// A plain answer says where the encoding is, and that Accept decides.
	a := do(t, "GET", url, "Accept", "*/*, "+bao.MediaType+";q=0")
	if a.body != string(data) || a.Header.Get("Link") != `<?format=bao>; rel="alternate"; type="`+bao.MediaType+`"` ||
		!slices.Contains(a.Header.Values("Vary"), "Accept") {
		t.Errorf("a plain answer: %v", a.Header)
	}
	accept := "application/*, " + bao.MediaType + ";q=0.9"
	if a := do(t, "GET", url, "Accept", accept); a.Header.Get("ETag") != exchange.ETag(root) {
		t.Errorf("something is liked better: %v", a.Header)
	}
	if a := do(t, "GET", url+"?format="); a.body != string(data) {
		t.Errorf("an empty format: %v", a.Header)
	}
}

// TestEncodingConditions: preconditions are about the encoding.
func TestEncodingConditions(t *testing.T) {
	t.Parallel()
	n := start(t)
	data := patterned(2 * b3.GroupSize)
	root := n.objects.put(data)
	url := n.Addrs().Gateway + "/o/" + root.String() + "?format=bao"
	for name, c := range map[string]struct {
		url     string
		headers []string
		etag    string
	}{
		"known":         {url, []string{"If-None-Match", baoTag(root, "")}, baoTag(root, "")},
		"known, weakly": {url, []string{"If-None-Match", `"x", W/` + baoTag(root, "")}, baoTag(root, "")},
		"known, not here": {
			n.Addrs().Gateway + "/o/" + fakeRoot.String() + "?format=bao", []string{
				"If-None-Match", baoTag(fakeRoot, ""),
			}, baoTag(fakeRoot, ""),
		},
	} {
		a := do(t, "GET", c.url, c.headers...)
		if a.StatusCode != http.StatusNotModified || a.body != "" || a.Header.Get("ETag") != c.etag ||
			a.Header.Get("Cache-Control") != exchange.Immutable {
			t.Errorf("%s: %s %v", name, a.Status, a.Header)
		}
	}
	if len(n.objects.opened()) != 0 {
		t.Error("an object was opened for a client that has it")
	}
	part := baoTag(root, "=0-4")
	for _, headers := range [][]string{{"If-None-Match", part}, {"If-None-Match", part, "If-Match", part}} {
		if a := do(t, "GET", url+"&bytes=0-4", headers...); a.StatusCode != http.StatusNotModified ||
			a.Header.Get("ETag") != part {
			t.Errorf("a known range: %s %v", a.Status, a.Header)
		}
	}
	if a := do(t, "GET", url, "If-Match", baoTag(root, "")); a.StatusCode != http.StatusOK {
		t.Errorf("If-Match: %s", a.Status)
	}
}

// TestEncodingRefusals: every refusal is a problem.
func TestEncodingRefusals(t *testing.T) {
	t.Parallel()
	n := start(t)
	root := n.objects.put(patterned(100))
	remote := n.objects.add(&fakeObject{data: []byte("far away"), remote: true})
	damaged := n.objects.add(&fakeObject{data: patterned(1000), err: status.Errorf(status.Corrupt, "damaged")})
	base := n.Addrs().Gateway + "/o/"
	for _, c := range []struct {
		name    string
		path    string
		headers []string
		want    status.Outcome
	}{
		{"nobody has it", b3.Sum([]byte("no such object")).String() + "?format=bao", nil, status.NotFound},
		{"another format", root.String() + "?format=car", nil, status.BadRequest},
		{"two formats", root.String() + "?format=bao&format=bao", nil, status.BadRequest},
		{"a range of the bytes in the query", root.String() + "?bytes=0-4", nil, status.BadRequest},
		{"two ranges", root.String() + "?format=bao&bytes=0-4&bytes=6-7", nil, status.BadRequest},
		{"a list of ranges", root.String() + "?format=bao&bytes=0-4,6-7", nil, status.BadRange},
		{"a range in words", root.String() + "?format=bao&bytes=all", nil, status.BadRange},
		{"an empty range", root.String() + "?format=bao&bytes=", nil, status.BadRange},
		{"a range behind the end", root.String() + "?format=bao&bytes=100-", nil, status.BadRange},
		{"a header behind the end", root.String() + "?format=bao", []string{"Range", "bytes=100-"}, status.BadRange},
		{"two headers", root.String() + "?format=bao",
			[]string{"Range", "bytes=0-1", "Range", "bytes=2-3"}, status.BadRange},
		{"match of the bytes", root.String() + "?format=bao",
			[]string{"If-Match", exchange.ETag(root)}, status.Precondition},
		{"only if cached", remote.String() + "?format=bao",
			[]string{"Cache-Control", "only-if-cached"}, status.Precondition},
		{"damaged from the start", damaged.String() + "?format=bao", nil, status.Corrupt},
	} {
		a := do(t, "GET", base+c.path, c.headers...)
		a.problem(t, c.want)
		if got := a.Header.Get("Content-Range"); c.want == status.BadRange && got != "bytes */100" {
			t.Errorf("%s: Content-Range %q", c.name, got)
		}
	}
}

// TestEncodingCut: what fails late ends the connection, after the last proved
// group.
func TestEncodingCut(t *testing.T) {
	t.Parallel()
	n := start(t)
	data := patterned(5 * b3.GroupSize)
	root := n.objects.add(&fakeObject{data: data, failAt: 3 * b3.GroupSize, err: status.Errorf(status.Corrupt,
		"damaged")})
	a := do(t, "GET", n.Addrs().Gateway+"/o/"+root.String()+"?format=bao")
	if a.StatusCode != http.StatusOK || a.err == nil {
		t.Fatalf("%s, %v", a.Status, a.err)
	}
	got, err := io.ReadAll(bao.NewDecoder(root, b3.Range{End: -1}, strings.NewReader(a.body)))
	if err == nil || len(got) > 3*b3.GroupSize || !bytes.HasPrefix(data, got) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// TestEncodingStreams: the first group leaves before the last one is there.
func TestEncodingStreams(t *testing.T) {
	t.Parallel()
	n := start(t)
	data := patterned(4 * b3.GroupSize)
	root := n.objects.add(&fakeObject{data: data, failAt: 2 * b3.GroupSize}) // then it waits for the end of the request
	resp, err := transport.RoundTrip(newRequest(t, n.Addrs().Gateway+"/o/"+root.String()+"?format=bao"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got := make([]byte, 2*b3.GroupSize)
	if _, err := io.ReadFull(bao.NewDecoder(root, b3.Range{End: -1}, resp.Body), got); err != nil ||
		!bytes.Equal(got, data[:len(got)]) {
		t.Errorf("%v", err)
	}
}

func newRequest(t testing.TB, url string) *http.Request {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return req
}
