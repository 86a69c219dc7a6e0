package gateway

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"allium/gateway/api"
	"allium/gateway/verified"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// through returns a client of a gateway.
func through(t testing.TB, base, token string) *verified.Gateway {
	t.Helper()
	g, err := verified.New(base, verified.Options{Token: token})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g
}

func TestClientUploads(t *testing.T) {
	t.Parallel()
	n := start(t)
	g := through(t, n.Addrs().Gateway, "may-put,pin")
	for _, size := range []int{0, 1, 64<<10 + 1, 1 << 20} {
		p := noise(size)
		want := api.Stored{Root: b3.Sum(p), Size: int64(size), New: true, Pinned: true}
		var last api.Progress
		s, err := g.Upload(t.Context(), bytes.NewReader(p), int64(size),
			verified.PutOptions{Label: "l", Progress: func(p api.Progress) {
				last = p
			}})
		if err != nil || s != want || last.Bytes != int64(size) || last.TotalBytes != int64(size) {
			t.Errorf("%d bytes: %+v, %v, %+v", size, s, err, last)
		}
		read := n.sent.wasRead()
		want.New = false
		if s, err := g.Upload(t.Context(), bytes.NewReader(p), int64(size), verified.PutOptions{}); err != nil ||
			s != want ||
			n.sent.wasRead() != read {
			t.Errorf("%d bytes again: %+v, %v", size, s, err)
		}
		want.Pinned = false
		for _, length := range []int64{int64(size), -1} {
			if s, err := g.Put(t.Context(),
				iotest.OneByteReader(bytes.NewReader(p[:min(size, 1000)])), min(length, 1000),
				verified.PutOptions{NoPin: true}); err != nil || size < 1000 && s != want {
				t.Errorf("%d bytes: %+v, %v", size, s, err)
			}
		}
	}
	if label, ok := n.sent.pinned(b3.Sum(nil)); !ok || label != "" {
		t.Errorf("pinned %q, %v", label, ok)
	}
}

// TestClientUploadFails: errors arrive as they are, of the gateway and of what
// is sent, and an upload that failed is given up.
func TestClientUploadFails(t *testing.T) {
	t.Parallel()
	n := start(t)
	p := noise(100_000)
	if _, err := through(t, n.Addrs().Gateway, "may-put").Upload(t.Context(), bytes.NewReader(p), 100_000,
		verified.PutOptions{}); status.Of(err) != status.Forbidden {
		t.Errorf("%v", err)
	}
	if _, err := through(t, n.Addrs().Gateway, "").Put(t.Context(), bytes.NewReader(p), 100_000,
		verified.PutOptions{}); status.Of(err) != status.Unauthenticated {
		t.Errorf("%v", err)
	}
	g := through(t, n.Addrs().Gateway, "may-put,pin")
	broken := errors.New("the disk is broken")
	if _, err := g.Put(t.Context(), io.MultiReader(bytes.NewReader(p), iotest.ErrReader(broken)), -1,
		verified.PutOptions{}); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	if _, err := g.Upload(t.Context(), bytes.NewReader(p), 100_001,
		verified.PutOptions{}); status.Of(err) != status.Conflict {
		t.Errorf("%v", err)
	}
	changing := &changing{p: bytes.Clone(p)}
	if _, err := g.Upload(t.Context(), changing, 100_000, verified.PutOptions{}); status.Of(err) != status.BadDigest {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := g.Upload(ctx, bytes.NewReader(p), 100_000, verified.PutOptions{}); status.Of(err) != status.Canceled {
		t.Errorf("%v", err)
	}
	n.sent.mu.Lock()
	defer n.sent.mu.Unlock()
	for id, u := range n.sent.open {
		if u != nil && u.Stored == nil {
			t.Errorf("%s is still open", id)
		}
	}
}

// changing is another file when it is read again.
type changing struct {
	mu sync.Mutex
	p  []byte
}

func (c *changing) ReadAt(p []byte, off int64) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, err := bytes.NewReader(c.p).ReadAt(p, off)
	if off+int64(n) == int64(len(c.p)) {
		c.p[0]++
	}
	return n, err
}

// TestClientChecksAnswers: a gateway that stores something else, or says so, is
// not believed.
func TestClientChecksAnswers(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"another address": `{"root":"` + b3.Sum([]byte("x")).String() + `","size":5}`,
		"another size":    `{"root":"` + b3.Sum([]byte("hello")).String() + `","size":6}`,
		"a page":          `<html>`,
		"nothing":         ``,
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = io.WriteString(w, answer)
		}))
		g := through(t, s.URL, "")
		if got, err := g.Put(t.Context(), strings.NewReader("hello"), 5,
			verified.PutOptions{}); status.Of(err) != status.Upstream {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if got, err := g.Upload(t.Context(), strings.NewReader("hello"), 5,
			verified.PutOptions{}); status.Of(err) != status.Upstream {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		g.Close()
		s.Close()
	}
}

// cutter is a proxy that cuts connections after so many bytes of the client's.
type cutter struct {
	l    net.Listener
	to   string
	wg   sync.WaitGroup
	mu   sync.Mutex
	cuts []int // of the next connections; then none
}

func newCutter(t *rapid.T, to string, cuts []int) *cutter {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{l: l, to: to, cuts: cuts}
	c.wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			c.wg.Go(func() { c.pass(conn) })
		}
	})
	return c
}

func (c *cutter) pass(in net.Conn) {
	defer in.Close()
	out, err := net.Dial("tcp", c.to)
	if err != nil {
		return
	}
	defer out.Close()
	c.mu.Lock()
	most := int64(1 << 40)
	if len(c.cuts) > 0 {
		most, c.cuts = int64(c.cuts[0]), c.cuts[1:]
	}
	c.mu.Unlock()
	var back sync.WaitGroup
	back.Go(func() { _, _ = io.Copy(in, out); in.Close() })
	_, _ = io.CopyN(out, in, most)
	in.Close()
	out.Close()
	back.Wait()
}

// TestClientResumes: wherever connections are cut, the upload ends with the
// object, and little is sent twice.
func TestClientResumes(t *testing.T) {
	t.Parallel()
	n := start(t)
	to := strings.TrimPrefix(n.Addrs().Gateway, "http://")
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.IntRange(0, 300_000).Draw(rt, "size")
		p := rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(rt, "seed")
		p = append(p, noise(size)...)
		// Beyond the headers, so that each connection but the last ones gets on.
		cuts := rapid.SliceOfN(rapid.IntRange(3_000, 100_000), 0, 4).Draw(rt, "cuts")
		c := newCutter(rt, to, cuts)
		defer c.wg.Wait()
		defer c.l.Close()
		g, err := verified.New("http://"+c.l.Addr().String(), verified.Options{Token: "may-put,pin"})
		if err != nil {
			rt.Fatal(err)
		}
		defer g.Close()
		s, err := g.Upload(t.Context(), bytes.NewReader(p), int64(len(p)), verified.PutOptions{})
		if err != nil || s.Root != b3.Sum(p) || s.Size != int64(len(p)) {
			rt.Fatalf("%+v, %v", s, err)
		}
	})
}
