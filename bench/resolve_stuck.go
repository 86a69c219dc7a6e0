package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/bench/measure"
	"allium/protocols/b3"
)

// A node whose lookups are stuck (SPEC §2): so many run, so many wait, and so many more arrive.
const (
	stuckRunning = 64
	stuckWaiting = 512
	stuckMore    = 1000
	stuckConns   = 8
	stuckFor     = 500 * time.Millisecond
)

// benchStuckResolves measures what refusing a lookup costs while as many wait as may: the node knows one
// peer, which accepts connections and says nothing.
func benchStuckResolves(ctx context.Context, s *settings) ([]row, error) {
	const what = "resolve, 576 stuck: "
	refused := row{What: what + "of 1,000 more, busy with Retry-After", Unit: "", Target: "1000"}
	lost := row{What: what + "of the 576, without an answer", Unit: "", Target: "0"}
	cpu := row{What: what + "CPU of a refusal over HTTP", Unit: "µs"}
	above := row{What: what + "the same above a bare handler", Unit: "µs", Target: "≤ 20"}
	for i := range s.rounds {
		got, err := s.stick(ctx, fmt.Sprint("stuck", i))
		if err != nil {
			return nil, err
		}
		refused.Values = append(refused.Values, float64(got.refused))
		lost.Values = append(lost.Values, float64(got.lost))
		cpu.Values = append(cpu.Values, micros(got.cpu))
		above.Values = append(above.Values, micros(got.cpu-got.bare))
	}
	return []row{refused, lost, cpu, above}, nil
}

// stuck holds the measurements of a node whose lookups are stuck.
type stuck struct {
	refused, lost int
	cpu, bare     time.Duration // of a refusal, and of an answer of a bare handler
}

func (s *settings) stick(ctx context.Context, name string) (got stuck, err error) {
	home := filepath.Join(s.dir, name)
	if err := unlimited(home); err != nil {
		return got, err
	}
	// The bound to meet is the resolver's, and not the gateway's in front of it. The lookups are stuck for
	// as long as the measurement takes.
	config := "[gateway]\nrate = 0.0\ninflight_per_ip = 0\nconns_per_ip = 0\nmisses = 4096\nmisses_per_ip = 0\n" +
		"[resolver]\ndeadline = \"8s\"\n"
	if err := os.WriteFile(filepath.Join(home, "config.toml"), []byte(config), 0o600); err != nil {
		return got, err
	}
	self, err := os.Executable()
	if err != nil {
		return got, err
	}
	silent, err := measure.Start(ctx, nil, self, "reference-silent")
	if err != nil {
		return got, err
	}
	defer func() { err = errors.Join(err, silent.End()) }()
	node, err := s.startNode(ctx, home, silent.Addr)
	if err != nil {
		return got, err
	}
	defer func() { err = errors.Join(err, node.End()) }()

	path := func(i int) string { return "/resolve/" + b3.Sum(fmt.Appendf(nil, "stuck %d", i)).String() }
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range stuckRunning + stuckWaiting {
		all.Go(func() {
			if a, err := askOnce(ctx, node, path(i)); err != nil || a.Code != http.StatusServiceUnavailable &&
				a.Code != http.StatusGatewayTimeout {
				mu.Lock()
				defer mu.Unlock()
				got.lost++
			}
		})
	}
	for begun := 0.0; begun < stuckRunning+stuckWaiting; time.Sleep(5 * time.Millisecond) {
		now, err := node.Counters(ctx)
		if err != nil {
			return got, err
		}
		begun = now["index_cache_misses_total"]
	}
	var more sync.WaitGroup
	for i := range stuckMore {
		more.Go(func() {
			a, err := askOnce(ctx, node, path(1_000_000+i))
			if err == nil && a.Code == http.StatusTooManyRequests &&
				bytes.Contains(a.Head, []byte("\r\nRetry-After: ")) {
				mu.Lock()
				defer mu.Unlock()
				got.refused++
			}
		})
	}
	more.Wait()
	refusals, err := pound(ctx, node, load{
		paths: []string{path(2_000_000)}, conns: stuckConns, length: stuckFor, want: http.StatusTooManyRequests,
	})
	if err != nil {
		return got, err
	}
	all.Wait()
	bare, err := s.startBare(ctx)
	if err != nil {
		return got, err
	}
	defer func() { err = errors.Join(err, bare.End()) }()
	answers, err := pound(ctx, bare, load{
		paths: []string{"/"}, conns: stuckConns, length: stuckFor, want: http.StatusOK,
	})
	got.cpu, got.bare = refusals.cpu, answers.cpu
	return got, err
}

// askOnce requests a path over a new connection.
func askOnce(ctx context.Context, p *process, path string) (a measure.Answer, err error) {
	addr := strings.TrimPrefix(p.Gate, "http://")
	c, err := dialFrom(ctx, nil, addr)
	if err != nil {
		return a, err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(askFor)); err != nil {
		return a, err
	}
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", path, addr); err != nil {
		return a, err
	}
	return measure.ReadAnswer(c, make([]byte, 16<<10))
}

// serveSilence is a peer that accepts connections over TCP and says nothing.
func serveSilence(ctx context.Context) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		return err
	}
	private, err := crypto.UnmarshalEd25519PrivateKey(key)
	if err != nil {
		return err
	}
	id, err := peer.IDFromPrivateKey(private)
	if err != nil {
		return err
	}
	fmt.Printf("listening on /ip4/127.0.0.1/tcp/%d/p2p/%s\nready\n", l.Addr().(*net.TCPAddr).Port, id)
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	for {
		c, err := l.Accept()
		if err != nil {
			return nil // SIGTERM
		}
		defer c.Close()
	}
}
