package node_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"allium/node/config"
	"allium/protocols/b3"
	"allium/protocols/capability"
	"allium/protocols/status"
)

// answer is an answer of a node's gateway.
type answer struct {
	code   int
	header http.Header
	body   string
}

// is fails the test unless the answer has the outcome.
func (a answer) is(t *testing.T, what string, want status.Outcome) {
	t.Helper()
	if got := a.header.Get("X-Reason"); got != want.String() {
		t.Errorf("%s: %d %q %s, want %s", what, a.code, got, a.body, want)
	}
}

// request sends a request to the gateway of n with a capability.
func request(t *testing.T, n *running, token, method, path string, body io.Reader, headers ...string) answer {
	t.Helper()
	if strings.HasPrefix(path, "/") {
		path = n.ID().Gateway + path
	}
	req, err := http.NewRequestWithContext(t.Context(), method, path, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	p, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(p)}
}

// beginUpload begins an upload in pieces.
func beginUpload(t *testing.T, n *running, token, query string, length int) answer {
	t.Helper()
	return request(t, n, token, "POST", "/u"+query, nil, "Upload-Length", strconv.Itoa(length))
}

// sendPiece sends a piece of an upload.
func sendPiece(t *testing.T, n *running, token, page string, at int, p string) answer {
	t.Helper()
	return request(t, n, token, "PATCH", page, strings.NewReader(p),
		"Upload-Offset", strconv.Itoa(at), "Content-Type", "application/offset+octet-stream")
}

// TestUploadsOfCapabilities takes as many places of uploads as one capability can. Another one
// still begins uploads, also after a restart. Each upload ends with its capability.
func TestUploadsOfCapabilities(t *testing.T) {
	home := t.TempDir()
	until := time.Now().Add(5 * time.Minute).Truncate(time.Second)
	small, other := mint(t, home, until, "op in put", "bytes <= 1KiB"), mintForAnHour(t, home)
	eight := func(c *config.Config) { c.Store.Uploads = 8 }
	n := startAt(t, home, eight)
	var last answer
	begun := 0
	for ; begun <= 8; begun++ {
		if last = beginUpload(t, n, small, "", 1); last.code != http.StatusCreated {
			break
		}
		if got := last.header.Get("Upload-Expires"); got != until.UTC().Format(http.TimeFormat) {
			t.Fatalf("the upload expires at %s, its capability at %s", got, until)
		}
	}
	last.is(t, "one more than its share", status.Busy)
	if begun != 4 || !strings.Contains(last.body, "store.uploads_each") || !strings.Contains(last.body, "remove one") {
		t.Errorf("after %d uploads: %s", begun, last.body)
	}
	caveat, err := capability.ParseCaveat("bytes <= 5")
	if err != nil {
		t.Fatal(err)
	}
	narrow, err := capability.Attenuate(small, caveat)
	if err != nil {
		t.Fatal(err)
	}
	beginUpload(t, n, narrow, "", 1).is(t, "made of the same capability", status.Busy)
	kept := beginUpload(t, n, other, "", 2)
	if kept.code != http.StatusCreated {
		t.Fatalf("another capability: %d %s", kept.code, kept.body)
	}
	page := kept.header.Get("Location")
	if a := sendPiece(t, n, other, page, 0, "x"); a.code != http.StatusNoContent {
		t.Fatalf("%d %s", a.code, a.body)
	}
	if err := n.stop(); err != nil {
		t.Fatal(err)
	}
	n = startAt(t, home, eight)
	beginUpload(t, n, small, "", 1).is(t, "one more after a restart", status.Busy)
	if a := beginUpload(t, n, other, "", 2); a.code != http.StatusCreated {
		t.Errorf("another capability, after a restart: %d %s", a.code, a.body)
	}
	if a := sendPiece(t, n, other, page, 1, "y"); a.code != http.StatusCreated {
		t.Errorf("%d %s", a.code, a.body)
	}
}

// TestUploadOfTwoCapabilities begins an upload with one capability and ends it with another. It
// is pinned under the label of the latter, or refused.
func TestUploadOfTwoCapabilities(t *testing.T) {
	home := t.TempDir()
	hour := time.Now().Add(time.Hour)
	free := mintForAnHour(t, home)
	photos := mint(t, home, hour, "op in put,pin", "label = photos")
	docs := mint(t, home, hour, "op in put", "label = docs")
	n := startAt(t, home, nil)
	begin := func(token string) string {
		t.Helper()
		a := beginUpload(t, n, token, "?pin=true", 2)
		if a.code != http.StatusCreated {
			t.Fatalf("%d %s", a.code, a.body)
		}
		return a.header.Get("Location")
	}
	page := begin(free)
	if a := sendPiece(t, n, free, page, 0, "a"); a.code != http.StatusNoContent {
		t.Fatalf("%d %s", a.code, a.body)
	}
	if a := sendPiece(t, n, photos, page, 1, "b"); a.code != http.StatusCreated {
		t.Fatalf("%d %s", a.code, a.body)
	}
	page = begin(photos)
	a := sendPiece(t, n, docs, page, 0, "cd")
	a.is(t, "a capability for another label", status.Forbidden)
	if !strings.Contains(a.body, `\"photos\"`) || !strings.Contains(a.body, `\"docs\"`) {
		t.Errorf("%s", a.body)
	}
	if a := sendPiece(t, n, free, page, 0, "cd"); a.code != http.StatusCreated {
		t.Fatalf("%d %s", a.code, a.body)
	}
	pinned := 0
	for pin, err := range n.api.Pins(t.Context()) {
		if pinned++; err != nil || pin.Label != "photos" {
			t.Errorf("%+v, %v; want the label photos", pin, err)
		}
	}
	if pinned != 2 {
		t.Errorf("%d pins, want 2", pinned)
	}
}

// TestBytesOfArchives posts archives that become larger than the capability allows. Each is
// refused as an object is that decompresses to more, and nothing of it is pinned.
func TestBytesOfArchives(t *testing.T) {
	home := t.TempDir()
	const most = 16 << 10
	token := mint(t, home, time.Now().Add(time.Hour), "op in put,pin", fmt.Sprintf("bytes <= %d", most))
	free := mintForAnHour(t, home)
	n := startAt(t, home, nil)
	if a := request(t, n, free, "POST", "/o?pin=false", strings.NewReader(strings.Repeat("r", most+1))); a.code >= 300 {
		t.Fatalf("%d %s", a.code, a.body)
	}
	halves := strings.Repeat("h", most/2)
	for name, c := range map[string]struct {
		sent
		want status.Outcome
	}{
		"a zip":                    {zipNamed(t, strings.Repeat("z", most+1), "a"), status.BodyCap},
		"a zip with two files":     {zipNamed(t, halves+"!", "a", "b"), status.BodyCap},
		"a zip as large":           {zipNamed(t, halves, "a", "b"), status.OK},
		"a zip with a false size":  {lyingZip(t, strings.Repeat("z", most+1)), status.BadRequest},
		"a sparse tar":             {sparseTar(t, most+1), status.BodyCap},
		"a sparse tar as large":    {sparseTar(t, most), status.OK},
		"a large file, by address": {tarByAddress(t, b3.Sum([]byte(strings.Repeat("r", most+1)))), status.BodyCap},
	} {
		a := request(t, n, token, "POST", "/b3", strings.NewReader(c.body), "Content-Type", c.media)
		if c.want != status.OK {
			a.is(t, name, c.want)
		} else if a.code >= 300 {
			t.Errorf("%s: %d %s", name, a.code, a.body)
		}
	}
	add := n.ID().Admin + "/api/v1/add"
	large := sparseTar(t, most+1)
	a := request(t, n, token, "POST", add, strings.NewReader(large.body), "Content-Type", large.media)
	if !strings.Contains(a.body, status.BodyCap.String()) {
		t.Errorf("a sparse tar to the local API: %d %s", a.code, a.body)
	}
	for _, content := range []string{strings.Repeat("z", most+1), halves + "!"} {
		if _, err := n.Store().Stat(t.Context(), b3.Sum([]byte(content))); status.Of(err) != status.NotFound {
			t.Errorf("a refused file of %d bytes is stored: %v", len(content), err)
		}
	}
	pinned := 0
	for _, err := range n.api.Pins(t.Context()) {
		if pinned++; err != nil {
			t.Error(err)
		}
	}
	if pinned != 2 {
		t.Errorf("%d pins, want those of the archives that fit", pinned)
	}
	if a = request(t, n, free, "POST", "/b3", strings.NewReader(large.body), "Content-Type",
		large.media); a.code != http.StatusCreated {
		t.Errorf("without a bound: %d %s", a.code, a.body)
	}
}

// lyingZip returns a zip whose list says that its file has one byte.
func lyingZip(t *testing.T, content string) sent {
	t.Helper()
	z := zipNamed(t, content, "a")
	p := []byte(z.body)
	at := bytes.Index(p, []byte("PK\x01\x02"))
	r, err := zip.NewReader(bytes.NewReader(p), int64(len(p)))
	if err != nil || at < 0 || r.File[0].UncompressedSize64 != uint64(len(content)) {
		t.Fatalf("%v", err)
	}
	copy(p[at+24:], []byte{1, 0, 0, 0})
	return sent{string(p), z.media}
}

// tarByAddress returns a tar with a file that it names by its address.
func tarByAddress(t *testing.T, root b3.Root) sent {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err := w.WriteHeader(&tar.Header{
		Name: "f", Typeflag: tar.TypeReg, Mode: 0o644, PAXRecords: map[string]string{"ALLIUM.root": root.String()},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return sent{b.String(), "application/x-tar"}
}

// sparseTar returns a tar with a sparse file of size bytes (old GNU format), of which it has 512.
func sparseTar(t *testing.T, size int) sent {
	t.Helper()
	h := make([]byte, 512)
	octal := func(at, width, n int) { copy(h[at:], fmt.Sprintf("%0*o\x00", width-1, n)) }
	copy(h, "f")
	octal(100, 8, 0o644)
	octal(108, 8, 0)
	octal(116, 8, 0)
	octal(124, 12, 512) // bytes in the tar
	octal(136, 12, 0)
	h[156] = tar.TypeGNUSparse
	copy(h[257:], "ustar  \x00")
	octal(386, 12, 0) // the first piece: 512 bytes at 0
	octal(398, 12, 512)
	octal(410, 12, size) // the end
	octal(422, 12, 0)
	octal(483, 12, size)
	copy(h[148:], "        ")
	sum := 0
	for _, c := range h {
		sum += int(c)
	}
	copy(h[148:], fmt.Sprintf("%06o\x00 ", sum))
	body := append(append(h, bytes.Repeat([]byte("s"), 512)...), make([]byte, 1024)...)
	return sent{string(body), "application/x-tar"}
}
