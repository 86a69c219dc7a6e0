package bed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"allium/bench/measure"
)

// Fetched holds the time, CPU time and memory that one cold fetch took.
type Fetched struct {
	Seconds float64 // of the command
	CPU     float64 // seconds that both nodes computed meanwhile
	RSS     int64   // peak of the fetching node, bytes
}

// FetchCold starts a node with an empty store on the transport of listen and
// fetches key from the provider.
func (s *Settings) FetchCold(
	ctx context.Context, listen string, from *measure.Process, key string,
) (f Fetched, err error) {
	home := filepath.Join(s.Dir, "fetcher")
	if err := os.RemoveAll(home); err != nil {
		return f, err
	}
	to, err := s.StartNodeOn(ctx, listen, home, from.Addr)
	if err != nil {
		return f, err
	}
	if _, err := s.Run(ctx, home, "connect", from.Addr); err != nil {
		return f, err
	}
	both := func() (seconds float64, err error) {
		for _, p := range []*measure.Process{from, to} {
			used, err := p.CPU()
			if err != nil {
				return 0, err
			}
			seconds += used.Seconds()
		}
		return seconds, nil
	}
	before, err := both()
	if err != nil {
		return f, err
	}
	u, err := s.Run(ctx, home, "get", key, "--store-only")
	if err != nil {
		return f, err
	}
	after, err := both()
	if err != nil {
		return f, err
	}
	f.Seconds, f.CPU = u.Wall.Seconds(), after-before
	f.RSS, err = to.Stop()
	return f, err
}

// Publish adds a random object to a running node and has it announced.
func (s *Settings) Publish(ctx context.Context, home string, size int64) (key string, err error) {
	f, err := os.CreateTemp(s.Dir, "object")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	if err := RandomBytes(f, size); err != nil {
		return "", err
	}
	if key, _, err = s.Add(ctx, home, f.Name()); err != nil {
		return "", err
	}
	_, err = s.Run(ctx, home, "announce", "-q", key)
	return key, err
}

// FirstByte returns the time from a request to the first byte of the answer's body, which must have size bytes.
func FirstByte(ctx context.Context, url string, size int64) (time.Duration, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	c := http.Client{Timeout: 10 * time.Second}
	defer c.CloseIdleConnections()
	begun := time.Now()
	resp, err := c.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	first := make([]byte, 1)
	_, err = io.ReadFull(resp.Body, first)
	took := time.Since(begun)
	if err != nil || resp.StatusCode != http.StatusOK {
		return 0, errors.Join(fmt.Errorf("%s: %s", url, resp.Status), err)
	}
	n, err := io.Copy(io.Discard, resp.Body)
	if err == nil && n+1 != size {
		err = fmt.Errorf("%s: %d bytes, not %d", url, n+1, size)
	}
	return took, err
}
