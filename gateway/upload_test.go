package gateway

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"allium/gateway/client"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// begin begins an upload and returns its page.
func begin(t testing.TB, n *testNode, length int, query string, headers ...string) string {
	t.Helper()
	a := upload(t, "POST", n.Addrs().Gateway+"/u"+query, nil, append([]string{"Upload-Length", strconv.Itoa(length)}, headers...)...)
	id, ok := strings.CutPrefix(a.Header.Get("Location"), "/u/")
	if a.StatusCode != http.StatusCreated || !ok || !isUploadID(id) || a.body != "" {
		t.Fatalf("%s %q %v", a.Status, a.body, a.Header)
	}
	a.offset(t, 0, length)
	return n.Addrs().Gateway + "/u/" + id
}

// offset checks how far an answer says that an upload is.
func (a answer) offset(t testing.TB, offset, length int) {
	t.Helper()
	h := a.Header
	if h.Get("Upload-Offset") != strconv.Itoa(offset) || h.Get("Upload-Length") != strconv.Itoa(length) ||
		h.Get("Upload-Expires") != "Fri, 02 Jan 2026 03:04:05 GMT" || h.Get("Cache-Control") != "no-store" {
		t.Errorf("%s %v, want offset %d of %d", a.Status, h, offset, length)
	}
}

func piece(t testing.TB, page string, offset int, body io.Reader, headers ...string) answer {
	t.Helper()
	return upload(t, "PATCH", page, body, append([]string{"Upload-Offset", strconv.Itoa(offset), "Content-Type", uploadMedia}, headers...)...)
}

func TestUploadInPieces(t *testing.T) {
	t.Parallel()
	n := start(t)
	p := noise(200_000)
	root := b3.Sum(p)
	page := begin(t, n, len(p), "?label=l", "Upload-Expect", root.String())
	for _, at := range [][2]int{{0, 1}, {1, 1}, {1, 100_000}} {
		a := piece(t, page, at[0], bytes.NewReader(p[at[0]:at[1]]))
		if a.StatusCode != http.StatusNoContent || a.body != "" {
			t.Fatalf("%v: %s %s", at, a.Status, a.body)
		}
		a.offset(t, at[1], len(p))
	}
	a := upload(t, "HEAD", page, nil)
	if a.StatusCode != http.StatusOK || a.Header.Get("Location") != "" {
		t.Errorf("%s %v", a.Status, a.Header)
	}
	a.offset(t, 100_000, len(p))
	do(t, "GET", n.Addrs().Gateway+"/o/"+root.String()).problem(t, status.NotFound)
	for _, at := range []int{0, 99_999, 100_001, 300_000} {
		a := piece(t, page, at, bytes.NewReader(p[:1]))
		a.problem(t, status.Conflict)
		if a.Header.Get("Upload-Offset") != "100000" {
			t.Errorf("%v", a.Header)
		}
	}
	piece(t, page, 100_000, bytes.NewReader(p[:100_001])).problem(t, status.BodyCap)
	want := client.Stored{Root: root, Size: int64(len(p)), New: true, Pinned: true}
	last := piece(t, page, 100_000, io.MultiReader(bytes.NewReader(p[100_000:])))
	last.stored(t, http.StatusCreated, want)
	last.offset(t, len(p), len(p))
	if label, ok := n.sent.pinned(root); !ok || label != "l" {
		t.Errorf("pinned %q %v", label, ok)
	}
	// Whoever lost the answer asks again.
	piece(t, page, len(p), nil).stored(t, http.StatusCreated, want)
	if a := upload(t, "HEAD", page, nil); a.Header.Get("Location") != "/o/"+root.String() {
		t.Errorf("%s %v", a.Status, a.Header)
	}
	// What is here need not be sent.
	want.New = false
	upload(t, "POST", n.Addrs().Gateway+"/u", nil, "Upload-Length", "200000", "Upload-Expect", root.String()).stored(t, http.StatusOK, want)
	upload(t, "POST", n.Addrs().Gateway+"/u", nil, "Upload-Length", "200001", "Upload-Expect", root.String()).problem(t, status.BadDigest)
}

func TestUploadOfNothing(t *testing.T) {
	t.Parallel()
	n := start(t)
	page := begin(t, n, 0, "?pin=false")
	piece(t, page, 0, nil).stored(t, http.StatusCreated, client.Stored{Root: b3.Sum(nil), New: true})
}

func TestUploadRemoved(t *testing.T) {
	t.Parallel()
	n := start(t)
	page := begin(t, n, 5, "")
	if a := upload(t, "DELETE", page, nil); a.StatusCode != http.StatusNoContent {
		t.Errorf("%s %s", a.Status, a.body)
	}
	upload(t, "HEAD", page, nil).problem(t, status.Gone)
	upload(t, "DELETE", page, nil).problem(t, status.Gone)
	piece(t, page, 0, strings.NewReader("hello")).problem(t, status.Gone)
	wrong := begin(t, n, 5, "", "Upload-Expect", b3.Sum([]byte("other")).String())
	piece(t, wrong, 0, strings.NewReader("hello")).problem(t, status.BadDigest)
	upload(t, "HEAD", wrong, nil).problem(t, status.Gone)
}

// TestUploadNeedsCapability: an id alone is not enough.
func TestUploadNeedsCapability(t *testing.T) {
	t.Parallel()
	n := start(t)
	page := begin(t, n, 5, "", "Authorization", "Bearer may-put<=5")
	for _, method := range []string{"HEAD", "PATCH", "DELETE"} {
		a := upload(t, method, page, nil, "Authorization", "Bearer may-pin")
		a.problem(t, status.Forbidden)
		a = do(t, method, page)
		a.problem(t, status.Unauthenticated)
	}
	upload(t, "POST", n.Addrs().Gateway+"/u", nil, "Upload-Length", "6", "Authorization", "Bearer may-put<=5").problem(t, status.Forbidden)
	upload(t, "POST", n.Addrs().Gateway+"/u?pin=true", nil, "Upload-Length", "5", "Authorization", "Bearer may-put").problem(t, status.Forbidden)
	// The whole counts, not the piece.
	piece(t, page, 0, strings.NewReader("h"), "Authorization", "Bearer may-put<=4").problem(t, status.Forbidden)
	a := piece(t, page, 0, strings.NewReader("hello"), "Authorization", "Bearer may-put<=5")
	a.stored(t, http.StatusCreated, client.Stored{Root: b3.Sum([]byte("hello")), Size: 5, New: true}) // and no pin
	for _, path := range []string{"/u", "/u/x"} {
		a := do(t, "OPTIONS", n.Addrs().Gateway+path)
		if a.StatusCode != http.StatusNoContent || a.Header.Get("Accept-Patch") != uploadMedia || !slices.Contains(a.Header.Values("Allow"), "OPTIONS") {
			t.Errorf("%s: %s %v", path, a.Status, a.Header)
		}
	}
}

// TestUploadHeaders: what is no number of bytes, or is there twice, is refused.
func TestUploadHeaders(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]int64{
		"0": 0, "1": 1, " 7 ": 7, "007": 7, "9223372036854775807": 1<<63 - 1,
		"": -1, "-1": -1, "+1": -1, "1.0": -1, "0x10": -1, "1e3": -1, "9223372036854775808": -1, "1_000": -1, "١": -1, "1 2": -1, "1,2": -1,
	} {
		got, err := bytesHeader(http.Header{"Upload-Length": {value}}, uploadLength)
		if (want < 0) != (status.Of(err) == status.BadRequest) || want >= 0 && got != want {
			t.Errorf("%q: %d, %v", value, got, err)
		}
	}
	for _, twice := range [][]string{nil, {"1", "1"}} {
		if _, err := bytesHeader(http.Header{"Upload-Length": twice}, uploadLength); status.Of(err) != status.BadRequest {
			t.Errorf("%q: %v", twice, err)
		}
	}
	root := b3.Sum([]byte("x"))
	for value, ok := range map[string]bool{root.String(): true, " " + root.String(): true, "": false, root.Hex(): false, strings.ToUpper(root.String()): false, b3.Root{}.String(): false} {
		if got, err := expectHeader(http.Header{"Upload-Expect": {value}}); ok != (err == nil && got == root) {
			t.Errorf("%q: %s, %v", value, got, err)
		}
	}
	for id, ok := range map[string]bool{strings.Repeat("0a", 16): true, strings.Repeat("0A", 16): false, strings.Repeat("0", 31): false, strings.Repeat("0", 33): false, "": false, strings.Repeat("/", 32): false} {
		if isUploadID(id) != ok {
			t.Errorf("%q", id)
		}
	}
}

// FuzzUploadHeaders: numbers come out as they went in, and nothing else does.
func FuzzUploadHeaders(f *testing.F) {
	for _, s := range []string{"0", "12345", "-1", "+1", "9223372036854775807", "9223372036854775808", "1e9", "b3:", b3.Sum(nil).String()} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		h := http.Header{"Upload-Offset": {value}, "Upload-Expect": {value}}
		if n, err := bytesHeader(h, uploadOffset); err == nil {
			if n < 0 || strings.TrimLeft(strings.Trim(value, " \t\r\n"), "0") != strings.TrimLeft(strconv.FormatInt(n, 10), "0") {
				t.Errorf("%q is %d", value, n)
			}
		} else if status.Of(err) != status.BadRequest {
			t.Errorf("%q: %v", value, err)
		}
		if root, err := expectHeader(h); err == nil && strings.Trim(value, " \t\r\n") != root.String() {
			t.Errorf("%q is %s", value, root)
		} else if err != nil && !slices.Contains([]status.Outcome{status.BadRequest, status.BadAddress}, status.Of(err)) {
			t.Errorf("%q: %v", value, err)
		}
	})
}

// TestTwoWriters: of two pieces at one place one is kept.
func TestTwoWriters(t *testing.T) {
	t.Parallel()
	n := start(t)
	reading := make(chan struct{}, 1)
	n.sent.reading.set(reading)
	page := begin(t, n, 10, "")
	body, more := io.Pipe()
	first := make(chan answer, 1)
	go func() { first <- piece(t, page, 0, body) }()
	<-reading
	piece(t, page, 0, strings.NewReader("second")).problem(t, status.Conflict)
	_, _ = fmt.Fprint(more, "first")
	more.Close()
	if a := <-first; a.StatusCode != http.StatusNoContent {
		t.Errorf("%s %s", a.Status, a.body)
	}
	a := upload(t, "HEAD", page, nil)
	a.offset(t, 5, 10)
}
