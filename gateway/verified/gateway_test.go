package verified

import (
	"bytes"
	"encoding/binary"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"allium/protocols/b3"
	"allium/protocols/bao"
	"allium/protocols/status"
)

// encodings serves one object as a gateway does. change may answer instead, or
// give back what is sent of the encoding and whether the connection is cut then.
type encodings struct {
	data     []byte
	root     b3.Root
	requests atomic.Int64
	change   func(n int64, w http.ResponseWriter, r *http.Request, enc []byte) (send []byte, cut, done bool)
}

func (e *encodings) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := e.requests.Add(1)
	size := int64(len(e.data))
	rng := b3.Range{End: -1}
	if first, last, ok := strings.Cut(r.URL.Query().Get("bytes"), "-"); ok {
		rng.Start, _ = strconv.ParseInt(first, 10, 64)
		if last != "" {
			rng.End, _ = strconv.ParseInt(last, 10, 64)
			rng.End++
		}
		if first == "" {
			rng.Start, rng.End = max(0, size-rng.End+1), -1
		}
	}
	var outboard, enc bytes.Buffer
	h := b3.NewHasher(&outboard, 1)
	_, _ = h.Write(e.data)
	_, _, _ = h.Sum()
	encoder, err := bao.NewEncoder(b3.NewReader(e.root, size,
		b3.FileSource(bytes.NewReader(e.data), bytes.NewReader(outboard.Bytes()), size)), rng)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_, _ = encoder.WriteTo(&enc)
	w.Header().Set("Content-Type", bao.MediaType)
	w.Header().Set("Content-Length", strconv.Itoa(enc.Len()))
	send, cut := enc.Bytes(), false
	if e.change != nil {
		var done bool
		if send, cut, done = e.change(n, w, r, send); done {
			return
		}
	}
	if !cut {
		w.Header().Set("Content-Length", strconv.Itoa(len(send)))
	}
	_, _ = w.Write(send)
	if cut {
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

func throughGateway(t *testing.T, size int, change func(n int64, w http.ResponseWriter, r *http.Request,
	enc []byte) ([]byte, bool, bool)) (*Gateway, *encodings) {
	t.Helper()
	e := &encodings{data: make([]byte, size), change: change}
	for i := range e.data {
		e.data[i] = byte(i ^ i>>8 ^ i>>15)
	}
	e.root = b3.Sum(e.data)
	s := httptest.NewServer(e)
	t.Cleanup(s.Close)
	g, err := New(s.URL, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g, e
}

const gatewaySize = 5*b3.GroupSize + 9

// TestGatewayGet: ranges come as they were asked for, and the end proves the size.
func TestGatewayGet(t *testing.T) {
	t.Parallel()
	g, e := throughGateway(t, gatewaySize, nil)
	for _, c := range []struct {
		r    b3.Range
		want []byte
	}{
		{b3.Range{Start: 0, End: -1}, e.data}, {
			b3.Range{Start: 70000, End: 70001}, e.data[70000:70001],
		}, {b3.Range{Start: 100, End: -1}, e.data[100:]},
		{b3.Range{Start: -10, End: -1}, e.data[gatewaySize-10:]}, {
			b3.Range{Start: -1 << 40, End: -1}, e.data,
		}, {b3.Range{Start: 5, End: 1 << 40}, e.data[5:]},
	} {
		d, err := g.Get(t.Context(), e.root, c.r)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(d)
		size, proved := d.Size()
		if err != nil || !bytes.Equal(got, c.want) || size != gatewaySize ||
			proved != (c.r.End < 0 || c.r.End > gatewaySize) {
			t.Errorf("%v: %d bytes of %d, size %d (%t): %v", c.r, len(got), len(c.want), size, proved, err)
		}
		_ = d.Close()
		if _, err := d.Read(make([]byte, 1)); err == nil {
			t.Errorf("%v: a read after Close", c.r)
		}
	}
	if size, err := g.Stat(t.Context(), e.root); err != nil || size != gatewaySize {
		t.Errorf("Stat: %d, %v", size, err)
	}
	for _, r := range []b3.Range{{Start: 5, End: 5}, {Start: 5, End: 3}, {Start: -1, End: 5}, {Start: 0, End: -2}} {
		if _, err := g.Get(t.Context(), e.root, r); status.Of(err) != status.BadRange {
			t.Errorf("%v: %v", r, err)
		}
	}
}

// TestGatewayGoesOn: a cut answer is asked for again from the last proved group
// on, and not for ever.
func TestGatewayGoesOn(t *testing.T) {
	t.Parallel()
	g, e := throughGateway(t, gatewaySize,
		func(n int64, _ http.ResponseWriter, _ *http.Request, enc []byte) ([]byte, bool,
			bool) {
			return enc[:min(len(enc), 2*b3.GroupSize)], n < 9, false // each brings a group, the last all
		})
	var got bytes.Buffer
	d, err := g.Get(t.Context(), e.root, b3.Range{Start: 3, End: -1})
	if err == nil {
		_, err = d.WriteTo(&got)
	}
	if err != nil || !bytes.Equal(got.Bytes(), e.data[3:]) || e.requests.Load() < 4 {
		t.Errorf("%d bytes in %d requests: %v", got.Len(), e.requests.Load(), err)
	}

	g, e = throughGateway(t, gatewaySize,
		func(_ int64, _ http.ResponseWriter, r *http.Request, enc []byte) ([]byte, bool,
			bool) {
			if strings.Contains(r.URL.RawQuery, "bytes=") {
				return enc[:100], true, false
			}
			return enc[:b3.GroupSize*3/2], true, false
		})
	if d, err = g.Get(t.Context(), e.root, b3.Range{Start: 0, End: -1}); err != nil {
		t.Fatal(err)
	}
	p, err := io.ReadAll(d)
	if status.Of(err) != status.TransportDown || !bytes.Equal(p, e.data[:b3.GroupSize]) ||
		e.requests.Load() != maxTries {
		t.Errorf("%d bytes in %d requests: %v", len(p), e.requests.Load(), err)
	}
}

// TestGatewayLies: what is wrong is corrupt or upstream, at once and for good.
func TestGatewayLies(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(w http.ResponseWriter, enc []byte) ([]byte, bool)
		want   status.Outcome
	}{
		"a bit": {func(_ http.ResponseWriter, enc []byte) ([]byte, bool) {
			enc[len(enc)/2] ^= 1
			return enc, false
		}, status.Corrupt},
		"short": {func(_ http.ResponseWriter, enc []byte) ([]byte, bool) { return enc[:len(enc)-1], false },
			status.Corrupt},
		"long": {func(_ http.ResponseWriter, enc []byte) ([]byte, bool) { return append(enc, 1), false },
			status.Corrupt},
		"a claim": {func(_ http.ResponseWriter, enc []byte) ([]byte, bool) {
			binary.LittleEndian.PutUint64(enc, 1<<61)
			return enc, false
		}, status.Corrupt},
		"no claim": {func(http.ResponseWriter, []byte) ([]byte, bool) { return nil, false }, status.Corrupt},
		"a page": {func(w http.ResponseWriter, _ []byte) ([]byte, bool) {
			w.Header().Set("Content-Type", "text/html")
			return []byte("<p>hello"), false
		}, status.Upstream},
		"a problem that is none": {func(w http.ResponseWriter, _ []byte) ([]byte, bool) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.Header().Del("Content-Length")
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"reason":"ok","detail":"fine"}`))
			return nil, true
		}, status.NotFound},
		"success that is none": {func(w http.ResponseWriter, _ []byte) ([]byte, bool) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.Header().Del("Content-Length")
			w.WriteHeader(599)
			_, _ = w.Write([]byte(`{"reason":"partial"}`))
			return nil, true
		}, status.Upstream},
		"elsewhere": {func(w http.ResponseWriter, _ []byte) ([]byte, bool) {
			w.Header().Del("Content-Length")
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.WriteHeader(http.StatusPermanentRedirect)
			return nil, true
		}, status.Upstream},
		"here, but not for good": {func(w http.ResponseWriter, _ []byte) ([]byte, bool) {
			w.Header().Del("Content-Length")
			w.Header().Set("Location", "/other")
			w.WriteHeader(http.StatusFound)
			return nil, true
		}, status.Upstream},
	} {
		g, e := throughGateway(t, gatewaySize,
			func(_ int64, w http.ResponseWriter, _ *http.Request, enc []byte) ([]byte,
				bool, bool) {
				send, done := c.change(w, enc)
				return send, false, done
			})
		var p []byte
		d, err := g.Get(t.Context(), e.root, b3.Range{Start: 0, End: -1})
		if err == nil {
			p, err = io.ReadAll(d)
			_ = d.Close()
		}
		if status.Of(err) != c.want || !bytes.HasPrefix(e.data, p) || e.requests.Load() != 1 {
			t.Errorf("%s: %d bytes in %d requests: %s: %v", name, len(p), e.requests.Load(), status.Of(err), err)
		}
	}
}

// TestGatewayRedirect: an address is followed within the origin.
func TestGatewayRedirect(t *testing.T) {
	t.Parallel()
	g, e := throughGateway(t, 100,
		func(n int64, w http.ResponseWriter, r *http.Request, enc []byte) ([]byte, bool, bool) {
			if n == 1 {
				w.Header().Del("Content-Length")
				w.Header().Set("Location", r.URL.RequestURI())
				w.WriteHeader(http.StatusPermanentRedirect)
			}
			return enc, false, n == 1
		})
	if size, err := g.Stat(t.Context(), e.root); err != nil || size != 100 {
		t.Errorf("%d, %v", size, err)
	}
}

// TestNewGateway: what is no gateway's address is refused, and a capability in
// the clear.
func TestNewGateway(t *testing.T) {
	t.Parallel()
	for _, base := range []string{
		"", "gateway.example", "ftp://x", "http://", "http://u:p@x", "http://x/path", "http://x?q", "http://x#f",
		"http://[::1",
	} {
		if _, err := New(base, Options{}); status.Of(err) != status.BadRequest {
			t.Errorf("%q: %v", base, err)
		}
	}
	for base, ok := range map[string]bool{
		"https://x": true, "http://127.0.0.1:1/": true, "http://localhost": true, "http://[::1]:80": true,
		"http://10.0.0.1": false, "http://localhost.example": false,
	} {
		if _, err := New(base, Options{Token: "t"}); (err == nil) != ok {
			t.Errorf("%s: %v", base, err)
		}
	}
	for _, o := range []Options{{Token: "a b"}, {Token: "a\nb"}, {CA: "/does/not/exist"}, {CA: "gateway_test.go"}} {
		if _, err := New("https://x", o); status.Of(err) != status.BadRequest {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
