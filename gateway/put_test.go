package gateway

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"allium/gateway/api"
	"allium/gateway/server"
	"allium/gateway/upload"
	"allium/internal/testkit"
	"allium/protocols/b3"
	"allium/protocols/capability"
	"allium/protocols/status"
)

// sendBody sends a body; headers come as name, value pairs.
func sendBody(t testing.TB, method, url string, body io.Reader, headers ...string) answer {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer may-put,pin")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	p, err := io.ReadAll(resp.Body)
	return answer{resp, string(p), err}
}

// stored checks that an answer is about an object that was stored.
func (a answer) stored(t testing.TB, code int, want api.Stored) {
	t.Helper()
	var got api.Stored
	if err := json.Unmarshal([]byte(a.body), &got); err != nil || got != want || a.StatusCode != code ||
		a.Header.Get("Location") != "/o/"+want.Root.String() || a.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%s %s %v, want %d %+v", a.Status, a.body, a.Header, code, want)
	}
}

func TestPut(t *testing.T) {
	t.Parallel()
	n := start(t)
	base := n.Addrs().Gateway
	for _, size := range []int{0, 1, 64 << 10, 64<<10 + 1, 3 << 20} {
		p := noise(size)
		root := b3.Sum(p)
		page := base + "/o/" + root.String()
		want := api.Stored{Root: root, Size: int64(size), New: true, Pinned: true}
		sendBody(t, "PUT", page, bytes.NewReader(p)).stored(t, http.StatusCreated, want)
		read := n.sent.wasRead()
		want.New = false
		sendBody(t, "PUT", page, bytes.NewReader(p), "Expect", "100-continue").stored(t, http.StatusOK, want)
		if n.sent.wasRead() != read {
			t.Errorf("%d bytes were read again", size)
		}
		sendBody(t, "POST", base+"/o", bytes.NewReader(p)).stored(t, http.StatusOK, want)
		if a := do(t, "GET", page); a.StatusCode != http.StatusOK || a.body != string(p) {
			t.Errorf("%d bytes: %s", size, a.Status)
		}
	}
	p := []byte("by post, in chunks")
	sendBody(t, "POST", base+"/o?label=l%20x", io.MultiReader(bytes.NewReader(p)),
		"Content-Type", "text/html", "Trailer",
		"X-Nothing").stored(t, http.StatusCreated,
		api.Stored{Root: b3.Sum(p), Size: int64(len(p)), New: true, Pinned: true})
	if label, ok := n.sent.pinned(b3.Sum(p)); !ok || label != "l x" {
		t.Errorf("pinned %q %v", label, ok)
	}
	sendBody(t, "PUT", base+"/o/"+b3.Root{}.String(), bytes.NewReader([]byte("anything"))).problem(t, status.BadDigest)
	upper := "b3:" + strings.ToUpper(b3.Sum(p).Hex())
	if a := sendBody(t, "PUT", base+"/o/"+upper+"?pin=false",
		bytes.NewReader(p)); a.StatusCode != http.StatusPermanentRedirect ||
		a.Header.Get("Location") != "/o/"+b3.Sum(p).String()+"?pin=false" {
		t.Errorf("%s %v", a.Status, a.Header)
	}
}

func TestPutEncoded(t *testing.T) {
	t.Parallel()
	n := start(t)
	base := n.Addrs().Gateway
	for i, c := range []struct {
		method, encoding string
		body             []byte
		plain            []byte
	}{
		{"PUT", "gzip", gzipped(t, []byte("one")), []byte("one")},
		{"POST", "gzip", gzipped(t, []byte("t"), []byte("wo")), []byte("two")},
		{"PUT", "zstd", zstdFrame(t, []byte("three")), []byte("three")},
		{"POST", "zstd", zstdFrame(t, noise(200_000)), noise(200_000)},
		{"PUT", "identity", []byte("five"), []byte("five")},
	} {
		page := base + "/o"
		if c.method == "PUT" {
			page += "/" + b3.Sum(c.plain).String()
		}
		sendBody(t, c.method, page, bytes.NewReader(c.body), "Content-Encoding",
			c.encoding).stored(t, http.StatusCreated,
			api.Stored{Root: b3.Sum(c.plain), Size: int64(len(c.plain)), New: true, Pinned: true})
		if i > 3 {
			continue
		}
		// An encoded body's length says nothing of the object's.
		sendBody(t, "POST", base+"/o", bytes.NewReader(c.body), "Content-Encoding", c.encoding, "Authorization",
			fmt.Sprint("Bearer may-put<=", len(c.plain)-1)).problem(t, status.BodyCap)
	}
	sendBody(t, "POST", base+"/o", bytes.NewReader(gzipped(t, make([]byte, 10<<20))), "Content-Encoding",
		"gzip").problem(t, status.DecompressCap)
	sendBody(t, "POST", base+"/o", strings.NewReader("no gzip"), "Content-Encoding",
		"gzip").problem(t, status.BadRequest)
	if got := n.counter("edge_rejects_total", "decompress_cap"); got != 1 {
		t.Errorf("%v refused as decompress_cap", got)
	}
}

// TestRefusedUnread: what can be refused is, before a byte of the body is asked
// for, and the connection is closed rather than read on.
func TestRefusedUnread(t *testing.T) {
	t.Parallel()
	n := start(t)
	n.sent.full.set(1 << 40)
	root := n.objects.put([]byte("here"))
	absent := b3.Sum([]byte("absent"))
	id := "00000000000000000000000000000000"
	u, err := n.sent.New(t.Context(), capability.Grant{}, upload.Options{Length: 10})
	if err != nil {
		t.Fatal(err)
	}
	const put, patch = "Authorization: Bearer may-put",
		"Content-Type: application/offset+octet-stream\r\nUpload-Offset: 0"
	for _, c := range []struct {
		name, line, headers, want string
	}{
		{"no token", "PUT /o/" + absent.String(), "", "401 "},
		{"another operation", "PUT /o/" + absent.String(), "Authorization: Bearer may-fetch", "403 "},
		{"may not pin", "PUT /o/" + absent.String() + "?pin=true", put, "403 "},
		{"a label without pin", "PUT /o/" + absent.String() + "?label=x", put, "403 "},
		{"a label and no pin", "POST /o?pin=false&label=x", put, "400 "},
		{"too many bytes", "PUT /o/" + absent.String(), "Authorization: Bearer may-put<=1000000", "403 "},
		{"unknown parameter", "PUT /o/" + absent.String() + "?pins=true", put, "400 "},
		{"parameter twice", "POST /o?pin=true&pin=true", put, "400 "},
		{"pin is no boolean", "POST /o?pin=yes", put, "400 "},
		{"no address", "PUT /o/b3:abc", put, "400 "},
		{"a range", "PUT /o/" + absent.String(), put + "\r\nContent-Range: bytes 0-9/100", "400 "},
		{"br", "POST /o", put + "\r\nContent-Encoding: br", "415 "},
		{"two encodings", "PUT /o/" + absent.String(), put + "\r\nContent-Encoding: gzip, zstd", "415 "},
		{"no space", "POST /o", put + "\r\nX-Huge: 1", "507 "},
		{"no method", "PATCH /o/" + absent.String(), put, "405 "},
		{"here", "PUT /o/" + root.String(), put, "200 "},
		{"here but unwanted", "PUT /o/" + root.String(), put + "\r\nIf-None-Match: *", "412 "},
		{"here, named", "PUT /o/" + root.String(), put + "\r\nIf-None-Match: \"x\", \"" + root.String() + "\"", "412 "},
		{"here, another named", "PUT /o/" + root.String(), put + "\r\nIf-None-Match: \"x\"", "200 "},
		{"not here but wanted", "PUT /o/" + absent.String(), put + "\r\nIf-Match: *", "412 "},
		{"uppercase", "PUT /o/b3:" + strings.ToUpper(absent.Hex()), put, "308 "},
		{"a body to begin with", "POST /u", put + "\r\nUpload-Length: 3", "413 "},
		{"no upload", "PATCH /u/" + id, put + "\r\n" + patch, "404 "},
		{"no id", "PATCH /u/../x", put + "\r\n" + patch, "404 "},
		{"no type", "PATCH /u/" + u.ID, put + "\r\nUpload-Offset: 0", "415 "},
		{"an encoded piece", "PATCH /u/" + u.ID, put + "\r\nContent-Encoding: gzip\r\n" + patch, "415 "},
		{"no offset", "PATCH /u/" + u.ID, put + "\r\nContent-Type: application/offset+octet-stream", "400 "},
		{"too long", "PATCH /u/" + u.ID, put + "\r\n" + patch, "413 "},
	} {
		for _, expect := range []string{"", "Expect: 100-continue\r\n"} {
			length := 1 << 30
			if strings.Contains(c.headers, "X-Huge") {
				length = 1 << 41
			}
			conn := dialRaw(t, n)
			fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: x\r\n%sContent-Length: %d\r\n%s\r\n\r\n", c.line,
				expect, length, c.headers)
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
				continue
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if !strings.HasPrefix(resp.Status, c.want) || !resp.Close {
				t.Errorf("%s (%q): %s, closed %v", c.name, expect, resp.Status, resp.Close)
			}
			conn.Close()
		}
	}
	if read := n.sent.wasRead(); read != 0 {
		t.Errorf("%d bytes were read", read)
	}
	if _, ok := n.sent.pinned(root); ok {
		t.Error("an object was pinned for somebody who may not")
	}
}

// TestExpectContinue: the client is told to go on by the first read and not
// before.
func TestExpectContinue(t *testing.T) {
	t.Parallel()
	n := start(t)
	c := dialRaw(t, n)
	fmt.Fprintf(c, "PUT /o/%s HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n"+
		"Authorization: Bearer may-put\r\n\r\n", b3.Sum([]byte("hello")))
	r := bufio.NewReader(c)
	if line, err := r.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 100 ") {
		t.Fatalf("%q, %v", line, err)
	}
	if _, err := r.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(c, "hello")
	resp, err := http.ReadResponse(r, nil)
	if err != nil || resp.StatusCode != http.StatusCreated {
		t.Fatalf("%v, %v", resp, err)
	}
	resp.Body.Close()
	// net/http's own
	roundTrip(t, dialRaw(t, n), "POST /o HTTP/1.1\r\nHost: x\r\nExpect: 200-ok\r\nContent-Length: 5\r\n"+
		"Authorization: Bearer may-put\r\n\r\n", "417")
}

// TestStreamIsCut: a body of unknown length ends where the capability does, and
// nothing of it stays; so does one that is not what its address says.
func TestStreamIsCut(t *testing.T) {
	t.Parallel()
	n := start(t)
	base := n.Addrs().Gateway
	p := noise(100_000)
	body := func() io.Reader { return io.MultiReader(bytes.NewReader(p)) } // without a length
	sendBody(t, "POST", base+"/o", body(), "Authorization", "Bearer may-put<=99999").problem(t, status.BodyCap)
	sendBody(t, "PUT", base+"/o/"+b3.Sum([]byte("other")).String(), body()).problem(t, status.BadDigest)
	sendBody(t, "PUT", base+"/o/"+b3.Sum([]byte("other")).String(), bytes.NewReader(p)).problem(t, status.BadDigest)
	do(t, "GET", base+"/o/"+b3.Sum(p).String()).problem(t, status.NotFound)
	sendBody(t, "POST", base+"/o", body(), "Authorization", "Bearer may-put<=100000").stored(t, http.StatusCreated,
		api.Stored{Root: b3.Sum(p), Size: 100_000, New: true})
}

// TestUploadIsCut: a client that goes away leaves nothing, and the place it had.
func TestUploadIsCut(t *testing.T) {
	t.Parallel()
	n := start(t, func(c *Config, _ *server.AdminConfig) { c.Uploads = 1 })
	for _, head := range []string{"Content-Length: 100\r\n\r\nhello", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"} {
		c := dialRaw(t, n)
		_, _ = io.WriteString(c, "POST /o HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer may-put\r\n"+head)
		testkit.Eventually(t, "the first bytes were read", func() bool { return n.sent.wasRead() >= 5 })
		sendBody(t, "POST", n.Addrs().Gateway+"/o", strings.NewReader("x")).problem(t, status.Busy)
		if a := do(t, "GET", n.Addrs().Gateway+"/"); a.StatusCode != http.StatusOK {
			t.Errorf("a read waits for uploads: %s", a.Status)
		}
		c.Close()
		testkit.Eventually(t, "no requests in flight", func() bool { return n.InFlight() == 0 })
		n.sent.mu.Lock()
		n.sent.read = 0
		n.sent.mu.Unlock()
	}
	do(t, "GET", n.Addrs().Gateway+"/o/"+b3.Sum([]byte("hello")).String()).problem(t, status.NotFound)
}

// TestMalformedChunks are the client's mistake.
func TestMalformedChunks(t *testing.T) {
	t.Parallel()
	n := start(t)
	for _, chunks := range []string{
		"zz\r\nhello\r\n", "5\r\nhelloXX", "-5\r\nhello\r\n0\r\n\r\n", "ffffffffffffffffff\r\n",
	} {
		roundTrip(t, dialRaw(t, n), "POST /o HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer may-put\r\n"+
			"Transfer-Encoding: chunked\r\n\r\n"+chunks, "400")
	}
}

// TestSlowBody: who sends nothing, or too little, is cut off with timeout, on a
// socket that keeps its place no longer.
func TestSlowBody(t *testing.T) {
	t.Parallel()
	n := start(t,
		func(c *Config, _ *server.AdminConfig) { c.Bodies.ReadTimeout, c.MinRate = 50*time.Millisecond, 1<<20 })
	silent := dialRaw(t, n)
	roundTrip(t, silent, "POST /o HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer may-put\r\nContent-Length: 100\r\n"+
		"\r\nhello", "504")
	trickle := dialRaw(t, n)
	_, _ = io.WriteString(trickle, "POST /o HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer may-put\r\n"+
		"Content-Length: 1000000\r\n\r\n")
	answered := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(trickle).ReadString('\n')
		answered <- line
	}()
	every := time.NewTicker(5 * time.Millisecond)
	defer every.Stop()
	for done := false; !done; {
		select {
		case line := <-answered:
			if !strings.HasPrefix(line, "HTTP/1.1 504 ") {
				t.Errorf("%q", line)
			}
			done = true
		case <-every.C:
			_, _ = io.WriteString(trickle, "x")
		}
	}
	testkit.Eventually(t, "no requests in flight", func() bool { return n.InFlight() == 0 })
	if got := n.counter("edge_rejects_total", "timeout"); got != 2 {
		t.Errorf("%v refused as timeout", got)
	}
}

// TestDrainCutsUploads: an upload that does not end in time is told that the
// node stops.
func TestDrainCutsUploads(t *testing.T) {
	t.Parallel()
	n := startWith(t, hooks{params: patiently})
	reading := make(chan struct{}, 1)
	n.sent.reading.set(reading)
	c := dialRaw(t, n)
	_, _ = io.WriteString(c, "POST /o HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer may-put\r\n"+
		"Content-Length: 100\r\n\r\nhello")
	<-reading
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := n.Drain(over); status.Of(err) != status.Timeout {
		t.Errorf("drain: %v", err)
	}
	if err := n.stop(); err != nil {
		t.Error(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("X-Reason") != "draining" {
		t.Errorf("%s %v", resp.Status, resp.Header)
	}
}

// TestUploadRefusals: what the node says reaches the client.
func TestUploadRefusals(t *testing.T) {
	t.Parallel()
	n := start(t)
	base := n.Addrs().Gateway
	for _, want := range []status.Outcome{status.NoSpace, status.Quota, status.NotAllowed, status.Busy, status.Denied} {
		n.sent.mu.Lock()
		n.sent.refuse = status.Errorf(want, "no")
		n.sent.mu.Unlock()
		for _, page := range []string{"PUT /o/" + b3.Sum(nil).String(), "POST /o", "POST /u"} {
			method, path, _ := strings.Cut(page, " ")
			body := io.Reader(nil)
			if path != "/u" {
				body = strings.NewReader("hello")
			}
			sendBody(t, method, base+path, body, "Upload-Length", "5").problem(t, want)
		}
	}
}
