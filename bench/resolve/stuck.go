package resolve

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
	"sync"
	"syscall"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/bench/bed"
	"allium/bench/clients"
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

// Stuck measures what refusing a lookup costs while as many wait as may: the node knows one
// peer, which accepts connections and says nothing.
func Stuck(ctx context.Context, s *bed.Settings) ([]measure.Row, error) {
	const what = "resolve, 576 stuck: "
	refused := measure.Row{What: what + "of 1,000 more, busy with Retry-After", Unit: "", Target: "1000"}
	lost := measure.Row{What: what + "of the 576, without an answer", Unit: "", Target: "0"}
	cpu := measure.Row{What: what + "CPU of a refusal over HTTP", Unit: "µs"}
	above := measure.Row{What: what + "the same above a bare handler", Unit: "µs", Target: "≤ 20"}
	for i := range s.Rounds {
		got, err := stick(ctx, s, fmt.Sprint("stuck", i))
		if err != nil {
			return nil, err
		}
		refused.Values = append(refused.Values, float64(got.refused))
		lost.Values = append(lost.Values, float64(got.lost))
		cpu.Values = append(cpu.Values, bed.Micros(got.cpu))
		above.Values = append(above.Values, bed.Micros(got.cpu-got.bare))
	}
	return []measure.Row{refused, lost, cpu, above}, nil
}

// stuck holds the measurements of a node whose lookups are stuck.
type stuck struct {
	refused, lost int
	cpu, bare     time.Duration // of a refusal, and of an answer of a bare handler
}

func stick(ctx context.Context, s *bed.Settings, name string) (got stuck, err error) {
	home := filepath.Join(s.Dir, name)
	if err := bed.Unlimited(home); err != nil {
		return got, err
	}
	// The bound to meet is the resolver's, and not the gateway's in front of it. The lookups are stuck for
	// as long as the measurement takes.
	config := "[gateway]\nrate = 0.0\ninflight_per_ip = 0\nconns_per_ip = 0\nmisses = 4096\nmisses_per_ip = 0\n" +
		"[resolver]\ndeadline = \"8s\"\n"
	if err := os.WriteFile(filepath.Join(home, "config.toml"), []byte(config), 0o600); err != nil {
		return got, err
	}
	silent, err := bed.Reference(ctx, "silent")
	if err != nil {
		return got, err
	}
	defer func() { err = errors.Join(err, silent.End()) }()
	node, err := s.StartNode(ctx, home, silent.Addr)
	if err != nil {
		return got, err
	}
	defer func() { err = errors.Join(err, node.End()) }()

	path := func(i int) string { return "/resolve/" + b3.Sum(fmt.Appendf(nil, "stuck %d", i)).String() }
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range stuckRunning + stuckWaiting {
		all.Go(func() {
			if a, err := clients.AskOnce(ctx, node, path(i)); err != nil || a.Code != http.StatusServiceUnavailable &&
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
			a, err := clients.AskOnce(ctx, node, path(1_000_000+i))
			if err == nil && a.Code == http.StatusTooManyRequests &&
				bytes.Contains(a.Head, []byte("\r\nRetry-After: ")) {
				mu.Lock()
				defer mu.Unlock()
				got.refused++
			}
		})
	}
	more.Wait()
	refusals, err := clients.Pound(ctx, node, clients.Load{
		Paths: []string{path(2_000_000)}, Conns: stuckConns, Length: stuckFor, Want: http.StatusTooManyRequests,
	})
	if err != nil {
		return got, err
	}
	all.Wait()
	bare, err := s.StartBare(ctx)
	if err != nil {
		return got, err
	}
	defer func() { err = errors.Join(err, bare.End()) }()
	answers, err := clients.Pound(ctx, bare, clients.Load{
		Paths: []string{"/"}, Conns: stuckConns, Length: stuckFor, Want: http.StatusOK,
	})
	got.cpu, got.bare = refusals.CPU, answers.CPU
	return got, err
}

// ServeSilence is a peer that accepts connections over TCP and says nothing.
func ServeSilence(ctx context.Context) error {
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
