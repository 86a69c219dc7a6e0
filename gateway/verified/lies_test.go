package verified

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"allium/protocols/b3"
	"allium/protocols/bao"
	"allium/protocols/status"
)

// read downloads all of an object and returns what was handed on.
func (e *encodings) read(t *testing.T, g *Gateway, r b3.Range) ([]byte, error) {
	t.Helper()
	d, err := g.Get(t.Context(), e.root, r)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return io.ReadAll(d)
}

// TestGatewayClaims: whatever size the encoding claims, only bytes of the object
// are handed on, in memory for a group, and the end is corrupt.
func TestGatewayClaims(t *testing.T) {
	t.Parallel()
	for _, claim := range []uint64{
		0, 1, b3.GroupSize, gatewaySize - 1, gatewaySize + 1, 6 * b3.GroupSize, 6*b3.GroupSize + 1, b3.MaxSize, 1 << 63,
		1<<64 - 1,
	} {
		g, e := throughGateway(t, gatewaySize,
			func(_ int64, _ http.ResponseWriter, _ *http.Request, enc []byte) ([]byte,
				bool, bool) {
				binary.LittleEndian.PutUint64(enc, claim)
				return enc, false, false
			})
		for _, r := range []b3.Range{
			{Start: 0, End: -1}, {Start: 100, End: 200}, {Start: -5, End: -1}, {Start: gatewaySize - 1, End: -1},
		} {
			p, err := e.read(t, g, r)
			switch {
			// a range that the last group is not in proves no size
			case err == nil && r == (b3.Range{Start: 100, End: 200}) && bytes.Equal(p, e.data[100:200]):
			case status.Of(err) != status.Corrupt || len(p) > 0 && !bytes.Contains(e.data, p):
				t.Errorf("%v of a claim of %d: %d bytes, %v", r, claim, len(p), err)
			}
		}
	}
}

// TestGatewayEndless: what never ends, is packed, or is of another range, is
// refused after at most a group of it.
func TestGatewayEndless(t *testing.T) {
	t.Parallel()
	endless := func(w http.ResponseWriter, r *http.Request) {
		junk := make([]byte, 32<<10)
		for r.Context().Err() == nil {
			if _, err := w.Write(junk); err != nil {
				return
			}
		}
	}
	for name, c := range map[string]struct {
		change func(w http.ResponseWriter, r *http.Request, enc []byte) ([]byte, bool)
		want   status.Outcome
	}{
		"for ever": {func(w http.ResponseWriter, r *http.Request, enc []byte) ([]byte, bool) {
			w.Header().Del("Content-Length")
			_, _ = w.Write(enc)
			endless(w, r)
			return nil, true
		}, status.Corrupt},
		"nothing but junk": {func(w http.ResponseWriter, r *http.Request, _ []byte) ([]byte, bool) {
			w.Header().Del("Content-Length")
			endless(w, r)
			return nil, true
		}, status.Corrupt},
		"an endless problem": {func(w http.ResponseWriter, r *http.Request, _ []byte) ([]byte, bool) {
			w.Header().Del("Content-Length")
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusGone)
			endless(w, r)
			return nil, true
		}, status.Gone},
		"an endless header": {func(w http.ResponseWriter, _ *http.Request, _ []byte) ([]byte, bool) {
			w.Header().Set("X-Long", strings.Repeat("a", 128<<10))
			return nil, false
		}, status.TransportDown},
		"gzip that nobody asked for": {func(w http.ResponseWriter, r *http.Request, enc []byte) ([]byte, bool) {
			if r.Header.Get("Accept-Encoding") != "" {
				t.Errorf("an encoding is accepted: %q", r.Header.Get("Accept-Encoding"))
			}
			w.Header().Set("Content-Encoding", "gzip")
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			_, _ = z.Write(enc)
			_ = z.Close()
			return b.Bytes(), false
		}, status.Corrupt},
		"206 of another range": {func(w http.ResponseWriter, _ *http.Request, enc []byte) ([]byte, bool) {
			w.Header().Del("Content-Length")
			w.Header().Set("Content-Range", "bytes 0-9/10")
			w.WriteHeader(http.StatusPartialContent)
			_, _ = w.Write(enc)
			return nil, true
		}, status.Upstream},
		"204": {func(w http.ResponseWriter, _ *http.Request, _ []byte) ([]byte, bool) {
			w.Header().Del("Content-Length")
			w.WriteHeader(http.StatusNoContent)
			return nil, true
		}, status.Upstream},
		"304": {func(w http.ResponseWriter, _ *http.Request, _ []byte) ([]byte, bool) {
			w.Header().Del("Content-Length")
			w.WriteHeader(http.StatusNotModified)
			return nil, true
		}, status.Upstream},
		"the last group alone": {func(_ http.ResponseWriter, _ *http.Request, enc []byte) ([]byte, bool) {
			return append(bytes.Clone(enc[:8]), enc[len(enc)-9:]...), false
		}, status.Corrupt},
	} {
		g, e := throughGateway(t, gatewaySize,
			func(_ int64, w http.ResponseWriter, r *http.Request, enc []byte) ([]byte,
				bool, bool) {
				send, done := c.change(w, r, enc)
				return send, false, done
			})
		p, err := e.read(t, g, b3.Range{Start: 0, End: -1})
		if status.Of(err) != c.want || !bytes.HasPrefix(e.data, p) {
			t.Errorf("%s: %d bytes: %s: %v", name, len(p), status.Of(err), err)
		}
	}
}

// TestGatewayAnotherRange: the true encoding of another range than was asked for
// is corrupt.
func TestGatewayAnotherRange(t *testing.T) {
	t.Parallel()
	honest, e := throughGateway(t, gatewaySize, nil)
	_ = honest
	swap := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := *r.URL
		q.RawQuery = "format=bao&bytes=131072-140000" // whatever is asked for
		r2 := r.Clone(r.Context())
		r2.URL = &q
		e.ServeHTTP(w, r2)
	}))
	defer swap.Close()
	g, err := New(swap.URL, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	for _, r := range []b3.Range{
		{Start: 0, End: -1}, {Start: 0, End: 100}, {Start: -10, End: -1}, {Start: gatewaySize - 1, End: -1},
		{Start: b3.GroupSize, End: 2 * b3.GroupSize},
	} {
		if p, err := e.read(t, g, r); status.Of(err) != status.Corrupt || len(p) > 0 {
			t.Errorf("%v: %d bytes, %v", r, len(p), err)
		}
	}
}

// TestGatewayTags: neither an ETag nor an answer to HEAD is believed, or asked for.
func TestGatewayTags(t *testing.T) {
	t.Parallel()
	g, e := throughGateway(t, gatewaySize,
		func(_ int64, w http.ResponseWriter, r *http.Request, enc []byte) ([]byte, bool,
			bool) {
			if r.Method == http.MethodHead {
				t.Error("HEAD is asked")
			}
			w.Header().Set("ETag", `"b3:`+strings.Repeat("0", 64)+`;bao"`)
			w.Header().Set("Content-Range", "bytes 5-6/7")
			return enc, false, false
		})
	if p, err := e.read(t, g, b3.Range{Start: 0, End: -1}); err != nil || !bytes.Equal(p, e.data) {
		t.Errorf("%d bytes, %v", len(p), err)
	}
	if size, err := g.Stat(t.Context(), e.root); err != nil || size != gatewaySize {
		t.Errorf("%d, %v", size, err)
	}
}

// TestGatewayKeepsToken: wherever a gateway redirects to, nobody else is asked,
// and so nobody else is shown the capability.
func TestGatewayKeepsToken(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	thief := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer thief.Close()
	other := strings.Replace(thief.URL, "127.0.0.1", "localhost", 1)
	for _, code := range []int{301, 302, 303, 307, 308} {
		for _, to := range []string{
			thief.URL, other, strings.TrimPrefix(thief.URL, "http:"), strings.Replace(thief.URL, "http", "https", 1),
			strings.Replace(thief.URL, "//", "//u:p@", 1),
		} {
			first := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") != "Bearer secret" {
					t.Errorf("the gateway is shown %q", r.Header.Get("Authorization"))
				}
				w.Header().Set("Location", to+r.URL.RequestURI())
				w.WriteHeader(code)
			}))
			g, err := New(first.URL, Options{Token: "secret"})
			if err != nil {
				t.Fatal(err)
			}
			if _, err = g.Get(t.Context(), b3.Sum(nil), b3.Range{End: -1}); status.Of(err) != status.Upstream ||
				strings.Contains(err.Error(), "secret") {
				t.Errorf("%d to %s: %v", code, to, err)
			}
			g.Close()
			first.Close()
		}
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("the thief was asked %d times", n)
	}
}

// dripping gives a byte every 20 s, for ever, or until its request ends.
type dripping struct {
	ctx  context.Context
	left []byte
}

func (d *dripping) RoundTrip(r *http.Request) (*http.Response, error) {
	h := http.Header{"Content-Type": {bao.MediaType}}
	return &http.Response{
		StatusCode: http.StatusOK, Header: h, Request: r, Body: io.NopCloser(&dripping{r.Context(), d.left}),
	}, nil
}

func (d *dripping) Read(p []byte) (int, error) {
	select {
	case <-time.After(20 * time.Second):
		n := copy(p[:1], d.left)
		d.left = d.left[n:]
		return n, nil
	case <-d.ctx.Done():
		return 0, context.Cause(d.ctx)
	}
}

// TestGatewayDrips: who sends a byte now and then holds nobody for ever.
func TestGatewayDrips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := New("http://127.0.0.1:1", Options{})
		if err != nil {
			t.Fatal(err)
		}
		header := binary.LittleEndian.AppendUint64(nil, b3.GroupSize)
		g.http = &http.Client{Transport: &dripping{left: append(header, make([]byte, b3.GroupSize)...)}}
		began := time.Now()
		d, err := g.Get(t.Context(), b3.Root{1}, b3.Range{End: -1})
		if err == nil {
			_, err = io.Copy(io.Discard, d)
			_ = d.Close()
		}
		if took := time.Since(began); status.Of(err) != status.Timeout || took > (maxTries+1)*proofTimeout {
			t.Errorf("after %s: %v", took, err)
		}
	})
}
