package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"allium/gateway/content"
	"allium/gateway/exchange"
	"allium/gateway/server"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// hotObjects lie in RAM.
type hotObjects struct{ *fakeObjects }

func (h hotObjects) Memory(root b3.Root) []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	if o := h.m[root]; o != nil {
		return o.data
	}
	return nil
}

func (h hotObjects) Cached(root b3.Root) bool { return h.Memory(root) != nil }

// wantedParts is what an answer to ranges has to hold, by a mark on each byte:
// what is asked for, and what is between where it is less than gap.
func wantedParts(asked [][2]int, size, gap int) (parts [][2]int) {
	marked := make([]bool, size)
	for _, r := range asked {
		for i := r[0]; i < r[1]; i++ {
			marked[i] = true
		}
	}
	var runs [][2]int
	for i := range size {
		switch last := len(runs) - 1; {
		case !marked[i]:
		case last >= 0 && i-runs[last][1] < gap:
			runs[last][1] = i + 1
		default:
			runs = append(runs, [2]int{i, i + 1})
		}
	}
	for _, r := range asked { // in the order they were asked for
		i := slices.IndexFunc(runs, func(run [2]int) bool { return run[0] <= r[0] && r[1] <= run[1] })
		if !slices.Contains(parts, runs[i]) {
			parts = append(parts, runs[i])
		}
	}
	return parts
}

// TestMultiRangeParts: the parts are what was asked for, read by another's
// parser, whether the object is opened or lies in RAM.
func TestMultiRangeParts(t *testing.T) {
	t.Parallel()
	objects := &fakeObjects{}
	on := func(c *Config, _ *server.AdminConfig) { c.Content.MultiRange, c.Rate = 8, 0 }
	sides := []http.Handler{
		newTestGateway(t, objects, on).Handler(server.Public),
		newTestGateway(t, hotObjects{objects}, on).Handler(server.Public),
	}
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.OneOf(rapid.IntRange(1, 1500), rapid.IntRange(1, 3*b3.GroupSize)).Draw(t, "size")
		data := patterned(size)
		root := objects.put(data)
		var asked [][2]int
		var specs []string
		sum := 0
		for range rapid.IntRange(1, 8).Draw(t, "ranges") {
			start := rapid.IntRange(0, size-1).Draw(t, "start")
			end := start + rapid.IntRange(1, min(size-start, size/4+1)).Draw(t, "bytes")
			spec := fmt.Sprintf("%d-%d", start, end-1)
			if end == size {
				spec = rapid.SampledFrom([]string{
					spec, fmt.Sprintf("%d-", start), fmt.Sprintf("-%d", size-start),
					fmt.Sprintf("%d-%d", start, size+7),
				}).Draw(t, "form")
			}
			asked, specs, sum = append(asked, [2]int{start, end}), append(specs, spec), sum+end-start
		}
		header := "bytes=" + strings.Join(specs, ",")
		get := serve(rapid.SampledFrom(sides).Draw(t, "side"), http.MethodGet, "/o/"+root.String(), "192.0.2.1:1", nil,
			"Range", header)
		if sum > size && len(asked) > 1 {
			if get.Code != http.StatusRequestedRangeNotSatisfiable {
				t.Fatalf("%s of %d: %d", header, size, get.Code)
			}
			return
		}
		if got := get.Header().Get("Content-Length"); get.Code != http.StatusPartialContent ||
			got != strconv.Itoa(get.Body.Len()) {
			t.Fatalf("%s of %d: %d, %d bytes of %s", header, size, get.Code, get.Body.Len(), got)
		}
		kind := http.DetectContentType(data[:min(size, 512)])
		cost := len("\r\n--0123456789abcdef\r\nContent-Type: \r\nContent-Range: bytes 0-0/\r\n\r\n") + len(kind) +
			len(strconv.Itoa(size))
		want := wantedParts(asked, size, cost)
		media, params, err := mime.ParseMediaType(get.Header().Get("Content-Type"))
		if err != nil {
			t.Fatal(err)
		}
		if len(want) == 1 {
			if media == "multipart/byteranges" || !bytes.Equal(get.Body.Bytes(), data[want[0][0]:want[0][1]]) {
				t.Errorf("%s of %d: %s, %d bytes, want %v", header, size, media, get.Body.Len(), want)
			}
			return
		}
		if media != "multipart/byteranges" || get.Header().Get("Content-Range") != "" {
			t.Fatalf("%s of %d: %v, want %v", header, size, get.Header(), want)
		}
		parts := multipart.NewReader(get.Body, params["boundary"])
		for _, w := range want {
			p, err := parts.NextPart()
			if err != nil {
				t.Fatalf("%s of %d: %v, want %v", header, size, err, w)
			}
			body, err := io.ReadAll(p)
			if err != nil || !bytes.Equal(body, data[w[0]:w[1]]) {
				t.Errorf("%s of %d: %d bytes (%v), want %v", header, size, len(body), err, w)
			}
			if got, want := p.Header.Get("Content-Range"),
				fmt.Sprintf("bytes %d-%d/%d", w[0], w[1]-1, size); got != want ||
				p.Header.Get("Content-Type") != kind {
				t.Errorf("%s of %d: part %v, want %s", header, size, p.Header, want)
			}
		}
		if _, err := parts.NextPart(); !errors.Is(err, io.EOF) {
			t.Errorf("%s of %d: more than %v: %v", header, size, want, err)
		}
	})
}

// TestMultiRangeFailure: what fails before any part has begun is an answer, what
// fails later cuts the connection, also between two parts.
func TestMultiRangeFailure(t *testing.T) {
	t.Parallel()
	n := start(t, func(c *Config, _ *server.AdminConfig) { c.Content.MultiRange = 2 })
	// The first part is more than net/http holds back: the header has left when the second one fails.
	root := n.objects.add(&fakeObject{
		data: bytes.Repeat([]byte("abcdefgh"), 3*b3.GroupSize/8), failAt: b3.GroupSize,
		err: status.Errorf(status.Corrupt, "group 1 is damaged"),
	})
	url := n.Addrs().Gateway + "/o/" + root.String()
	do(t, http.MethodGet, url, "Range", "bytes=70000-70001,0-1").problem(t, status.Corrupt)
	for _, ranges := range []string{"bytes=0-9999,70000-70001", "bytes=0-9999,65000-65999"} {
		a := do(t, http.MethodGet, url, "Range", ranges)
		if a.StatusCode != http.StatusPartialContent || !errors.Is(a.err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: %s, %v", ranges, a.Status, a.err)
		}
		if !strings.Contains(a.body, "\r\n\r\nabcdefgh") || strings.HasSuffix(a.body, "--\r\n") {
			t.Errorf("%s: %q", ranges, exchange.Clip(a.body))
		}
	}
}

// TestMultiRangeBoundary: no two answers have the same one.
func TestMultiRangeBoundary(t *testing.T) {
	t.Parallel()
	objects := &fakeObjects{}
	s := newTestGateway(t, objects, func(c *Config, _ *server.AdminConfig) {
		c.Content.MultiRange, c.Rate = 2, 0
	}).Handler(server.Public)
	target := "/o/" + objects.put([]byte(digits)).String()
	seen := map[string]bool{}
	for range 100 {
		seen[serve(s, http.MethodGet, target, "192.0.2.1:1", nil, "Range",
			"bytes=0-0,500-500").Header().Get("Content-Type")] = true
	}
	if len(seen) != 100 {
		t.Errorf("%d boundaries", len(seen))
	}
}

func TestMultiRangeConfig(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]status.Outcome{
		-1: status.BadRequest, 0: status.OK, 1: status.OK, content.MaxRanges: status.OK,
		content.MaxRanges + 1: status.BadRequest,
	} {
		c := DefaultConfig()
		c.Content.MultiRange = n
		if err := c.Validate(); status.Of(err) != want || err != nil &&
			!strings.Contains(err.Error(), "gateway.multi_range") {
			t.Errorf("%d: %v", n, err)
		}
	}
}
