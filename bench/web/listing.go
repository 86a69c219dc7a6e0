package web

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"time"

	"allium/bench/bed"
	"allium/bench/measure"
)

// The directories that benchListing lists, by how many entries they have.
const (
	shortListing, sortedListing, longListing = 100, 10_000, 100_000
)

// listingTries is the number of times that a round asks for each listing. The fastest counts.
const listingTries = 10

// Listing measures the first byte of pages of directories: one that is sorted, and one that is too long for it,
// each against a short one, in turn.
func Listing(ctx context.Context, s *bed.Settings) (rows []measure.Row, err error) {
	home := filepath.Join(s.Dir, "listing")
	if err := bed.Unlimited(home); err != nil {
		return nil, err
	}
	paths := map[int]string{}
	for _, n := range []int{shortListing, sortedListing, longListing} {
		dir := filepath.Join(s.Dir, fmt.Sprintf("listing%d", n))
		if err := listedFiles(dir, n); err != nil {
			return nil, err
		}
		key, _, err := s.Add(ctx, home, dir)
		if err != nil {
			return nil, err
		}
		if err := os.RemoveAll(dir); err != nil {
			return nil, err
		}
		paths[n] = "/b3/" + key + "/"
	}
	node, err := s.StartNode(ctx, home)
	if err != nil {
		return nil, err
	}
	defer func() { _, _ = node.Stop() }()
	sorted := measure.Row{What: "listing of 10,000 by size: first byte ÷ 100", Unit: "×", Target: "≤ 3"}
	long := measure.Row{What: "listing of 100,000: first byte ÷ 100", Unit: "×", Target: "≤ 2"}
	short := measure.Row{What: "listing of 100: first byte", Unit: "ms"}
	grown := measure.Row{What: "listing of 10,000 by size: RSS", Unit: "MB more", Target: "≤ 20"}
	whole := measure.Row{What: "listing of 10,000 by size: all of it", Unit: "ms"}
	for range s.Rounds {
		a, err := fastestByte(ctx, node.Gate+paths[shortListing])
		if err != nil {
			return nil, err
		}
		before, err := node.Memory()
		if err != nil {
			return nil, err
		}
		b, err := fastestByte(ctx, node.Gate+paths[sortedListing]+"?sort=size")
		if err != nil {
			return nil, err
		}
		after, err := node.Memory()
		if err != nil {
			return nil, err
		}
		c, err := fastestByte(ctx, node.Gate+paths[longListing])
		if err != nil {
			return nil, err
		}
		sorted.Values = append(sorted.Values, b.first.Seconds()/a.first.Seconds())
		long.Values = append(long.Values, c.first.Seconds()/a.first.Seconds())
		short.Values = append(short.Values, bed.MS(a.first))
		grown.Values = append(grown.Values, bed.MB(after-before))
		whole.Values = append(whole.Values, bed.MS(b.whole))
	}
	return []measure.Row{short, sorted, long, grown, whole}, nil
}

// listedFiles writes n small files of 97 sizes.
func listedFiles(dir string, n int) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for i := range n {
		name := filepath.Join(dir, listedName(i))
		if err := os.WriteFile(name, make([]byte, 1+i%97), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func listedName(i int) string { return fmt.Sprintf("picture %d.jpeg", i) }

// answered holds the times until the first byte of an answer and until its end.
type answered struct{ first, whole time.Duration }

// fastestByte asks for url over one connection and returns the answer whose first byte was fastest.
func fastestByte(ctx context.Context, url string) (best answered, err error) {
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for range listingTries {
		var begun time.Time
		var got answered
		trace := &httptrace.ClientTrace{
			WroteRequest:         func(httptrace.WroteRequestInfo) { begun = time.Now() },
			GotFirstResponseByte: func() { got.first = time.Since(begun) },
		}
		req, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), http.MethodGet, url, nil)
		if err != nil {
			return best, err
		}
		req.Header.Set("Accept", "text/html")
		resp, err := client.Do(req)
		if err != nil {
			return best, err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if err == nil && resp.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %s", url, resp.Status)
		}
		if err != nil {
			return best, err
		}
		got.whole = time.Since(begun)
		if best.first == 0 || got.first < best.first {
			best = got
		}
	}
	return best, nil
}
