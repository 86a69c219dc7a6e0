package gateway

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"allium/gateway/api"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// begin begins an upload and returns its page.
func begin(t testing.TB, n *testNode, length int, query string, headers ...string) string {
	t.Helper()
	a := sendBody(t, "POST", n.Addrs().Gateway+"/u"+query, nil, append([]string{
		"Upload-Length", strconv.Itoa(length),
	}, headers...)...)
	id, ok := strings.CutPrefix(a.Header.Get("Location"), "/u/")
	if a.StatusCode != http.StatusCreated || !ok || len(id) != 32 || a.body != "" {
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
	return sendBody(t, "PATCH", page, body, append([]string{
		"Upload-Offset", strconv.Itoa(offset), "Content-Type", "application/offset+octet-stream",
	}, headers...)...)
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
	a := sendBody(t, "HEAD", page, nil)
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
	want := api.Stored{Root: root, Size: int64(len(p)), New: true, Pinned: true}
	last := piece(t, page, 100_000, io.MultiReader(bytes.NewReader(p[100_000:])))
	last.stored(t, http.StatusCreated, want)
	last.offset(t, len(p), len(p))
	if label, ok := n.sent.pinned(root); !ok || label != "l" {
		t.Errorf("pinned %q %v", label, ok)
	}
	// Whoever lost the answer asks again.
	piece(t, page, len(p), nil).stored(t, http.StatusCreated, want)
	if a := sendBody(t, "HEAD", page, nil); a.Header.Get("Location") != "/o/"+root.String() {
		t.Errorf("%s %v", a.Status, a.Header)
	}
	// What is here need not be sent.
	want.New = false
	sendBody(t, "POST", n.Addrs().Gateway+"/u", nil, "Upload-Length", "200000",
		"Upload-Expect", root.String()).stored(t,
		http.StatusOK, want)
	sendBody(t, "POST", n.Addrs().Gateway+"/u", nil, "Upload-Length", "200001",
		"Upload-Expect", root.String()).problem(t,
		status.BadDigest)
}

func TestUploadOfNothing(t *testing.T) {
	t.Parallel()
	n := start(t)
	page := begin(t, n, 0, "?pin=false")
	if a := do(t, "GET", n.Addrs().Gateway+"/o/"+b3.Sum(nil).String()); a.StatusCode != http.StatusOK {
		t.Errorf("no part follows, and the object is not stored: %s", a.Status)
	}
	piece(t, page, 0, nil).stored(t, http.StatusCreated, api.Stored{Root: b3.Sum(nil), New: true})
}

// TestTus: what a client of tus 1.0 relies on.
func TestTus(t *testing.T) {
	t.Parallel()
	n := start(t)
	speaks := []string{"Tus-Resumable", "1.0.0"}
	page := begin(t, n, 5, "", speaks...)
	root := b3.Sum([]byte("hello"))
	last := piece(t, page, 0, strings.NewReader("hello"), speaks...)
	if last.StatusCode != http.StatusNoContent || last.body != "" ||
		last.Header.Get("Location") != "/o/"+root.String() {
		t.Errorf("the last part: %s %q %v", last.Status, last.body, last.Header)
	}
	for _, a := range []answer{
		last, sendBody(t, "HEAD", page, nil, speaks...), sendBody(t, "POST", n.Addrs().Gateway+"/u", nil),
		sendBody(t, "DELETE", page, nil), sendBody(t, "HEAD", page, nil), do(t, "OPTIONS", page),
	} {
		if a.Header.Get("Tus-Resumable") != "1.0.0" {
			t.Errorf("%s without a version: %v", a.Status, a.Header)
		}
	}
	for _, path := range []string{"/u", "/u/x"} {
		h := do(t, "OPTIONS", n.Addrs().Gateway+path).Header
		if h.Get("Tus-Version") != "1.0.0" || h.Get("Tus-Extension") != "creation,expiration,termination" {
			t.Errorf("%s: %v", path, h)
		}
	}
	for _, header := range []string{"Upload-Concat", "Upload-Defer-Length"} {
		a := sendBody(t, "POST", n.Addrs().Gateway+"/u", nil, "Upload-Length", "5", header, "1")
		if a.problem(t, status.Unsupported); !strings.Contains(a.body, header) {
			t.Errorf("%s is not named: %s", header, a.body)
		}
	}
	other := sendBody(t, "POST", n.Addrs().Gateway+"/u", nil, "Upload-Length", "5", "Tus-Resumable", "0.2.2")
	if other.problem(t, status.Precondition); other.Header.Get("Tus-Version") != "1.0.0" {
		t.Errorf("%v", other.Header)
	}
}

func TestUploadRemoved(t *testing.T) {
	t.Parallel()
	n := start(t)
	page := begin(t, n, 5, "")
	if a := sendBody(t, "DELETE", page, nil); a.StatusCode != http.StatusNoContent {
		t.Errorf("%s %s", a.Status, a.body)
	}
	sendBody(t, "HEAD", page, nil).problem(t, status.Gone)
	sendBody(t, "DELETE", page, nil).problem(t, status.Gone)
	piece(t, page, 0, strings.NewReader("hello")).problem(t, status.Gone)
	wrong := begin(t, n, 5, "", "Upload-Expect", b3.Sum([]byte("other")).String())
	piece(t, wrong, 0, strings.NewReader("hello")).problem(t, status.BadDigest)
	sendBody(t, "HEAD", wrong, nil).problem(t, status.Gone)
}

// TestUploadNeedsCapability: an id alone is not enough.
func TestUploadNeedsCapability(t *testing.T) {
	t.Parallel()
	n := start(t)
	page := begin(t, n, 5, "", "Authorization", "Bearer may-put<=5")
	for _, method := range []string{"HEAD", "PATCH", "DELETE"} {
		a := sendBody(t, method, page, nil, "Authorization", "Bearer may-pin")
		a.problem(t, status.Forbidden)
		a = do(t, method, page)
		a.problem(t, status.Unauthenticated)
	}
	sendBody(t, "POST", n.Addrs().Gateway+"/u", nil, "Upload-Length", "6", "Authorization",
		"Bearer may-put<=5").problem(t,
		status.Forbidden)
	sendBody(t, "POST", n.Addrs().Gateway+"/u?pin=true", nil, "Upload-Length", "5", "Authorization",
		"Bearer may-put").problem(t, status.Forbidden)
	// The whole counts, not the piece.
	piece(t, page, 0, strings.NewReader("h"), "Authorization", "Bearer may-put<=4").problem(t, status.Forbidden)
	a := piece(t, page, 0, strings.NewReader("hello"), "Authorization", "Bearer may-put<=5")
	a.stored(t, http.StatusCreated, api.Stored{Root: b3.Sum([]byte("hello")), Size: 5, New: true}) // and no pin
	for _, path := range []string{"/u", "/u/x"} {
		a := do(t, "OPTIONS", n.Addrs().Gateway+path)
		if a.StatusCode != http.StatusNoContent || a.Header.Get("Accept-Patch") != "application/offset+octet-stream" ||
			!strings.HasPrefix(a.Header.Get("Allow"), "OPTIONS, ") {
			t.Errorf("%s: %s %v", path, a.Status, a.Header)
		}
	}
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
	a := sendBody(t, "HEAD", page, nil)
	a.offset(t, 5, 10)
}
