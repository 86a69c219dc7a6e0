package gateway

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"allium/gateway/content"
	"allium/gateway/server"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// TestEarlyFailure: before the first byte every failure is a clean problem.
func TestEarlyFailure(t *testing.T) {
	t.Parallel()
	n := start(t)
	data := bytes.Repeat([]byte("x"), 3*b3.GroupSize)
	for i, want := range []status.Outcome{
		status.Corrupt, status.Upstream, status.Timeout, status.BreakerOpen, status.Busy, status.NotFound,
	} {
		root := n.objects.add(&fakeObject{data: append(data, byte(i)), err: status.Errorf(want,
			"the first group fails")})
		do(t, "GET", n.Addrs().Gateway+"/o/"+root.String()).problem(t, want)
	}
	// What went wrong inside is not for the public.
	root := n.objects.add(&fakeObject{
		data: append(data, 99), err: errors.New("open /home/someone/secret: permission denied"),
	})
	p := do(t, "GET", n.Addrs().Gateway+"/o/"+root.String()).problem(t, status.Internal)
	if strings.Contains(p.Detail, "secret") {
		t.Errorf("detail %q", p.Detail)
	}
	if log := n.log.String(); !strings.Contains(log, "secret") ||
		!strings.Contains(log, strings.TrimPrefix(p.Instance, "urn:allium:request:")) {
		t.Errorf("the log does not say what happened: %s", log)
	}
}

// TestLateFailure: after the first byte a failure cuts the connection, so a
// short body never looks whole: not by its length, not by its last chunk.
func TestLateFailure(t *testing.T) {
	t.Parallel()
	n := start(t)
	data := bytes.Repeat([]byte("abcdefgh"), 3*b3.GroupSize/8)
	bad := status.Errorf(status.Corrupt, "group 1 is damaged")
	root := n.objects.add(&fakeObject{data: data, failAt: b3.GroupSize, err: bad})
	for _, headers := range [][]string{nil, {"Range", "bytes=100-"}} {
		a := do(t, "GET", n.Addrs().Gateway+"/o/"+root.String(), headers...)
		if a.StatusCode >= 400 || !errors.Is(a.err, io.ErrUnexpectedEOF) {
			t.Errorf("%v: %s, %v", headers, a.Status, a.err)
		}
		if length, err := strconv.Atoi(a.Header.Get("Content-Length")); err != nil || len(a.body) >= length {
			t.Errorf("%v: %d bytes of %s", headers, len(a.body), a.Header.Get("Content-Length"))
		}
		if !bytes.HasPrefix(data[len(headers)*50:], []byte(a.body)) {
			t.Errorf("%v: wrong bytes", headers)
		}
	}
	if got := counterOf(t, n.reg, "gateway_cut_total"); got != 2 {
		t.Errorf("%v answers cut", got)
	}
	if log := n.log.String(); !strings.Contains(log, "level=WARN") || !strings.Contains(log, "reason=corrupt") ||
		strings.Contains(log, root.Hex()) || !strings.Contains(log, root.Hex()[:8]) {
		t.Errorf("log: %s", log)
	}
}

// TestShortContent: a Content that ends early without an error is caught.
func TestShortContent(t *testing.T) {
	t.Parallel()
	n := startWith(t, hooks{deps: func(d *Deps) { d.Objects = shortObjects{} }})
	c := dialRaw(t, n)
	if _, err := io.WriteString(c, "GET /o/"+b3.Sum(nil).String()+" HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err == nil {
		defer resp.Body.Close()
		_, err = io.ReadAll(resp.Body)
	}
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%v", err)
	}
}

type shortObjects struct{}

func (shortObjects) Memory(b3.Root) []byte { return nil }
func (shortObjects) Cached(b3.Root) bool   { return false }

func (shortObjects) Open(context.Context, b3.Root, content.OpenOptions) (content.Content, error) {
	return shortObjects{}, nil
}
func (shortObjects) Size() int64  { return 10 }
func (shortObjects) Close() error { return nil }
func (shortObjects) Copy(_ context.Context, w io.Writer, _, _ int64) error {
	_, err := w.Write([]byte("abc"))
	return err
}
func (s shortObjects) Encode(ctx context.Context, w io.Writer, start, end int64) error {
	return s.Copy(ctx, w, start, end)
}

// TestCutListing: a listing whose second half is gone has no end, and one whose beginning is gone is an error.
func TestCutListing(t *testing.T) {
	if testing.Short() {
		t.Skip("a large directory; TestMaze has the same goroutines")
	}
	t.Parallel()
	n := start(t)
	damaged := func(entry, many, length int) string {
		return n.Addrs().Gateway + "/b3/" + damagedListing(t, n, entry, many, length).String() + "/"
	}
	gone := damaged(0, 9000, 60)
	do(t, "GET", gone).problem(t, status.Corrupt)
	do(t, "GET", gone+"?sort=size").problem(t, status.Corrupt)
	zipped := do(t, "GET", gone+"?format=html", "Accept-Encoding", "gzip")
	if zipped.problem(t, status.Corrupt); zipped.Header.Get("Content-Encoding") != "" {
		t.Errorf("the problem is said to be compressed: %v", zipped.Header)
	}
	cut, long := damaged(8999, 9000, 60), damaged(15_999, 16_000, 245)
	for _, url := range []string{
		cut, cut + "?sort=size", cut + "?format=json", long + "?view=list", long + "?view=gallery",
	} {
		a := do(t, "GET", url)
		if a.StatusCode != http.StatusOK || a.err == nil || strings.Contains(a.body, "<footer>") {
			t.Errorf("%s: %s with %d bytes, %v", url, a.Status, len(a.body), a.err)
		}
	}
}

// damagedListing makes a directory of many files, the leaf that holds an entry damaged.
func damagedListing(t *testing.T, n *testNode, entry, many, length int) b3.Root {
	t.Helper()
	files := map[string]string{}
	name := func(i int) string { return fmt.Sprintf("%05d-", i) + strings.Repeat("y", length) }
	for i := range many {
		files[name(i)] = "same"
	}
	root := n.objects.tree(t, files)
	n.objects.mu.Lock()
	for r, o := range n.objects.m {
		if r != root && bytes.Contains(o.data, []byte(name(entry))) && len(o.data) > 1000 {
			o.err = status.Errorf(status.Corrupt, "damaged")
		}
	}
	n.objects.mu.Unlock()
	return root
}

// TestHeadOfAListing: the head of a long listing is sent before its entries, that of a short one with them.
func TestHeadOfAListing(t *testing.T) {
	t.Parallel()
	n := start(t)
	for _, many := range []int{10, 2000} {
		files := map[string]string{}
		for i := range many {
			files[fmt.Sprintf("%05d-%s", i, strings.Repeat("y", 60))] = "same"
		}
		conn, err := net.Dial("tcp", n.Addrs().Gateway[len("http://"):])
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "GET /b3/%s/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", n.objects.tree(t, files))
		in := bufio.NewReader(conn)
		for line := "x"; line != "\r\n"; { // the header
			if line, err = in.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
		var size int
		if _, err := fmt.Fscanf(in, "%x\r\n", &size); err != nil {
			t.Fatal(err)
		}
		first := make([]byte, size)
		if _, err := io.ReadFull(in, first); err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(first, []byte("still arriving")) || bytes.Contains(first, []byte("<tbody>")) != (many == 10) {
			t.Errorf("of %d entries: the first part ends with %.200q", many, first[max(0, size-200):])
		}
	}
}

func TestPanicIsInternal(t *testing.T) {
	t.Parallel()
	n := start(t)
	root := n.objects.add(&fakeObject{data: []byte("x"), panics: true})
	for range 2 { // the node lives on
		do(t, "GET", n.Addrs().Gateway+"/o/"+root.String()).problem(t, status.Internal)
	}
	if got := counterOf(t, n.reg, "gateway_panics_total"); got != 2 {
		t.Errorf("%v panics", got)
	}
	if log := n.log.String(); !strings.Contains(log, "boom") || !strings.Contains(log, "fakeContent") {
		t.Errorf("no stack in %s", log)
	}
	if got := counterOf(t, n.reg, "inflight_requests", "object"); got != 0 {
		t.Errorf("%v still in flight", got)
	}
}

// recorded runs one public request without a socket, in virtual time.
func recorded(t *testing.T, o *fakeObject, headers ...string) (rec *httptest.ResponseRecorder) {
	t.Helper()
	objects := &fakeObjects{}
	root := objects.add(o)
	g, err := New(DefaultConfig(), server.DefaultAdminConfig(), Deps{
		Objects: objects, Index: &fakeIndex{}, Node: &fakeNode{}, Ready: nothingReady,
	})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/o/"+root.String(), nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	rec = httptest.NewRecorder()
	defer func() {
		switch v := recover(); v {
		case nil:
		case http.ErrAbortHandler:
			rec.Header().Set("Aborted", "yes")
		default:
			panic(v)
		}
	}()
	g.Handler(server.Public).ServeHTTP(rec, r)
	return rec
}

func TestWatch(t *testing.T) {
	t.Parallel()
	big := bytes.Repeat([]byte("z"), 3*b3.GroupSize)
	for _, c := range []struct {
		name    string
		object  *fakeObject
		headers []string
		code    int
		aborted bool
		took    time.Duration
	}{
		{"nothing comes", &fakeObject{data: big, gate: make(chan struct{})}, nil, 504, false, 5 * time.Second},
		{"it stands still", &fakeObject{data: big, failAt: b3.GroupSize}, nil, 200, true, time.Minute},
		{
			"the client has less time", &fakeObject{data: big, gate: make(chan struct{})},
			[]string{"Request-Timeout", "1.5"}, 504, false, 1500 * time.Millisecond,
		},
		{
			"the client has more time", &fakeObject{data: big, gate: make(chan struct{})},
			[]string{"Request-Timeout", "60"}, 504, false, 5 * time.Second,
		},
		{"it is there", &fakeObject{data: big}, nil, 200, false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if c.object.gate != nil {
					c.object.gate = make(chan struct{}) // of this bubble
				}
				begin := time.Now()
				rec := recorded(t, c.object, c.headers...)
				if rec.Code != c.code || (rec.Header().Get("Aborted") != "") != c.aborted ||
					time.Since(begin) != c.took {
					t.Errorf("%d after %s, aborted %q: %.200s", rec.Code, time.Since(begin),
						rec.Header().Get("Aborted"), rec.Body)
				}
				if c.code == 504 && rec.Header().Get("X-Reason") != "timeout" {
					t.Errorf("reason %q", rec.Header().Get("X-Reason"))
				}
			})
		})
	}
}
