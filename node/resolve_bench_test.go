package node_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"allium/node/config"
)

// BenchmarkResolveHTTP compares a remembered answer of /resolve with a bare handler that
// returns the same bytes, header and body, and with one that returns the body alone, each over one
// kept connection. The limits per second and per client are off.
func BenchmarkResolveHTTP(b *testing.B) {
	n := start(b, func(c *config.Config) {
		c.Gateway.Rate, c.Gateway.InflightPerIP = 0, 0
		c.Resolver.PositiveTTL = 1 << 40
	})
	root, _ := addBytes(b, n, 1, 1000)
	path := "/resolve/" + root.String()
	first := exchangeOver(b, n.ID().Gateway, path, http.StatusOK)() // searches
	answer := exchangeOver(b, n.ID().Gateway, path, http.StatusOK)()
	if bytes.Contains(first, []byte(`"source":"cache"`)) || !bytes.Contains(answer, []byte(`"source":"cache"`)) {
		b.Fatalf("%s\n%s", first, answer)
	}
	header, body := partsOf(b, answer)
	bare := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		for k, v := range header {
			h[k] = v
		}
		_, _ = w.Write(body)
	}))
	b.Cleanup(bare.Close)
	bodyOnly := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body)
	}))
	b.Cleanup(bodyOnly.Close)
	for _, c := range []struct{ name, base string }{
		{"gateway", n.ID().Gateway}, {"bare", bare.URL}, {"body", bodyOnly.URL},
	} {
		b.Run(c.name, func(b *testing.B) {
			get := exchangeOver(b, c.base, path, http.StatusOK)
			for b.Loop() {
				get()
			}
		})
	}
	b.Run("ratio", func(b *testing.B) {
		ours, theirs := exchangeOver(b, n.ID().Gateway, path, http.StatusOK),
			exchangeOver(b, bare.URL, path, http.StatusOK)
		var rates, tails []float64
		for b.Loop() { // in turn, so that what else the machine does slows both
			rate, tail := paced(ours)
			bareRate, bareTail := paced(theirs)
			rates, tails = append(rates, rate/bareRate), append(tails, tail/bareTail)
		}
		slices.Sort(rates)
		slices.Sort(tails)
		b.ReportMetric(rates[len(rates)/2], "rate-of-bare")
		b.ReportMetric(tails[len(tails)/2], "p99-of-bare")
	})
}

// paced sends a round of requests. It returns how many are answered per second, and the 99th percentile of
// the time of one in seconds.
func paced(get func() []byte) (rate, p99 float64) {
	const requests = 2000
	took := make([]float64, requests)
	begun := time.Now()
	for i := range took {
		at := time.Now()
		get()
		took[i] = time.Since(at).Seconds()
	}
	rate = requests / time.Since(begun).Seconds()
	slices.Sort(took)
	return rate, took[requests*99/100]
}

// partsOf returns the header and the body of an answer.
func partsOf(tb testing.TB, answer []byte) (http.Header, []byte) {
	tb.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(answer)), nil)
	if err != nil {
		tb.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		tb.Fatal(err)
	}
	return resp.Header, body
}

// exchangeOver returns a function that sends a GET over one connection and returns the
// whole answer, which has that status code and a Content-Length. The bytes are valid until the next call.
func exchangeOver(tb testing.TB, base, path string, code int) (get func() []byte) {
	tb.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { c.Close() })
	request := []byte("GET " + path + " HTTP/1.1\r\nHost: " + c.RemoteAddr().String() + "\r\n\r\n")
	first := fmt.Appendf(nil, "HTTP/1.1 %d ", code)
	buf := make([]byte, 64<<10)
	return func() []byte {
		if _, err := c.Write(request); err != nil {
			tb.Fatal(err)
		}
		got := 0
		for {
			m, err := c.Read(buf[got:])
			if err != nil {
				tb.Fatal(err)
			}
			got += m
			head, body, whole := bytes.Cut(buf[:got], []byte("\r\n\r\n"))
			if !whole {
				continue
			}
			if !bytes.HasPrefix(head, first) {
				tb.Fatalf("%s", buf[:got])
			}
			var length int
			_, rest, _ := bytes.Cut(head, []byte("\r\nContent-Length: "))
			if _, err := fmt.Sscanf(string(rest[:min(len(rest), 8)]), "%d", &length); err != nil {
				tb.Fatalf("%s: %v", head, err)
			}
			if len(body) >= length {
				return buf[:got]
			}
		}
	}
}
