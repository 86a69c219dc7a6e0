package sites

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"allium/bench/measure"
	"allium/gateway/api"
)

// The domains of a node, and how they are asked.
const (
	manyDomains = 10_000
	asks        = 200 // requests to each node in a round, each over a new connection
	askFor      = 10 * time.Second
	settle      = 10 * time.Second // until the memory of a node is read
)

// measureDomains measures the first byte of a website at a node of one domain and at a node of ten thousand, in turn,
// and the memory of both: after the start, and after both have read a changed configuration.
func measureDomains(ctx context.Context, c Config) (rows []measure.Row, err error) {
	dir := filepath.Join(c.Dir, "domain")
	if err := write(dir); err != nil {
		return nil, err
	}
	counts := []int{1, manyDomains}
	nodes := make([]*measure.Process, len(counts))
	texts := make([]string, len(counts))
	for i, n := range counts {
		key, err := c.nodes().Add(ctx, c.home(n), dir)
		if err != nil {
			return nil, err
		}
		texts[i] = domains(n, key)
		if err := c.configure(n, texts[i]); err != nil {
			return nil, err
		}
		if nodes[i], err = c.nodes().Start(ctx, c.home(n)); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, nodes[i].End()) }()
	}
	started, err := memoryOf(ctx, nodes)
	if err != nil {
		return nil, err
	}
	first := make([][]float64, len(nodes))
	for round := range c.Rounds + 1 { // the first warms both
		for i, p := range nodes {
			took, err := firstBytes(ctx, strings.TrimPrefix(p.Gate, "http://"))
			if err != nil {
				return nil, err
			}
			if round > 0 {
				first[i] = append(first[i], measure.Millis(took, 50))
			}
		}
	}
	for i, n := range counts {
		if err := c.configure(n, strings.Replace(texts[i], "www0.", "web0.", 1)); err != nil {
			return nil, err
		}
		if err := reload(ctx, c.home(n)); err != nil {
			return nil, err
		}
	}
	reloaded, err := memoryOf(ctx, nodes)
	if err != nil {
		return nil, err
	}
	const what = "10,000 domains: "
	return []measure.Row{
		{What: "one domain: first byte, median of 200", Unit: "ms", Values: first[0]},
		{What: what + "first byte, median of 200", Unit: "ms", Values: first[1]},
		{What: what + "first byte ÷ of one", Unit: "×", Target: "about 1", Values: measure.Pairs(first[1], first[0])},
		measure.Single("one domain: RSS", "MB", "", started[0]),
		measure.Single(what+"RSS more", "MB", "≤ 20", started[1]-started[0]),
		measure.Single("one domain: RSS after a reload", "MB", "", reloaded[0]),
		measure.Single(what+"RSS more after a reload", "MB", "≤ 20", reloaded[1]-reloaded[0]),
	}, nil
}

func (c Config) home(domains int) string { return filepath.Join(c.Dir, fmt.Sprint("domains", domains)) }

// configure writes the configuration of the node with so many domains.
func (c Config) configure(domains int, text string) error {
	return os.WriteFile(filepath.Join(c.home(domains), "config.toml"), []byte(text), 0o600)
}

// domains returns a configuration of n websites. The first one serves key, and the others random addresses that nobody
// has.
func domains(n int, key string) string {
	var text strings.Builder
	text.WriteString("gateway.rate = 0.0\n")
	for i := range n {
		fmt.Fprintf(&text, "[gateway.sites.s%d]\ndomain = \"www%[1]d.example.org\"\nkey = %q\n", i, key)
		var other [32]byte
		_, _ = crand.Read(other[:]) // never fails
		key = fmt.Sprintf("b3:%x", other)
	}
	return text.String()
}

// memoryOf returns the resident memory of nodes in MB, once they have been left alone for a while.
func memoryOf(ctx context.Context, nodes []*measure.Process) (mb []float64, err error) {
	select {
	case <-time.After(settle):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for _, p := range nodes {
		rss, err := p.Memory()
		if err != nil {
			return nil, err
		}
		mb = append(mb, float64(rss)/1e6)
	}
	return mb, nil
}

// firstBytes asks for the first website as often as asks says, and returns how long each took from before the
// connection to the first byte; sorted.
func firstBytes(ctx context.Context, addr string) (took []time.Duration, err error) {
	for range asks {
		begun := time.Now()
		c, err := (&net.Dialer{Timeout: askFor}).DialContext(ctx, "tcp", addr)
		if err != nil {
			return nil, err
		}
		answer := make([]byte, len("HTTP/1.1 200"))
		err = c.SetDeadline(begun.Add(askFor))
		if err == nil {
			_, err = c.Write([]byte("GET / HTTP/1.1\r\nHost: www0.example.org\r\nConnection: close\r\n\r\n"))
		}
		if err == nil {
			_, err = c.Read(answer)
		}
		took = append(took, time.Since(begun))
		if err = errors.Join(err, c.Close()); err != nil {
			return nil, err
		}
		if string(answer) != "HTTP/1.1 200" {
			return nil, fmt.Errorf("a website is answered with %q", answer)
		}
	}
	slices.Sort(took)
	return took, nil
}

// reload has the node of a home read its configuration.
func reload(ctx context.Context, home string) error {
	node, err := measure.Client(home)
	if err != nil {
		return err
	}
	defer node.Close()
	done, err := node.Reload(ctx, api.ReloadRequest{})
	if err != nil {
		return err
	}
	return done.Failed()
}
