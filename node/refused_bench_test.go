package node_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/testkit"
	"allium/node/config"
	"allium/node/p2p"
	"allium/protocols/b3"
)

// BenchmarkRefusedHTTP is what refusing a lookup costs over HTTP while as many run and wait as may: the
// node's only peer says nothing. It compares the refusal with a bare handler that returns the same bytes.
func BenchmarkRefusedHTTP(b *testing.B) {
	const waiting = 512
	n := start(b, func(c *config.Config) {
		c.DHT.Seeds.Bootstrap = []string{silentPeer(b)}
		c.Gateway.Rate, c.Gateway.InflightPerIP, c.Gateway.ConnsPerIP = 0, 0, 0
		c.Gateway.Content.Fetches, c.Gateway.Content.FetchesPerIP = 4096, 0
		c.Resolver.Deadline = time.Hour
	})
	running := int(config.Default(p2p.Testnet).Resolver.Lookups)
	path := func(i int) string { return "/resolve/" + b3.Sum(fmt.Appendf(nil, "stuck %d", i)).String() }
	ctx, cancel := context.WithCancel(b.Context())
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	for i := range running + waiting {
		asking.Go(func() {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, n.ID().Gateway+path(i), nil)
			if err != nil {
				b.Error(err)
				return
			}
			if resp, err := http.DefaultClient.Do(req); err == nil {
				resp.Body.Close()
				b.Errorf("a lookup that was stuck was answered with %s", resp.Status)
			}
		})
	}
	testkit.Eventually(b, "all lookups run or wait", func() bool {
		return metric(b, n, "index_cache_misses_total") == int64(running+waiting)
	})
	refused := path(-1)
	answer := bytes.Clone(exchangeOver(b, n.ID().Gateway, refused, http.StatusTooManyRequests)())
	header, body := partsOf(b, answer)
	bare := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		for k, v := range header {
			h[k] = v
		}
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = w.Write(body)
	}))
	b.Cleanup(bare.Close)
	for _, c := range []struct{ name, base string }{{"gateway", n.ID().Gateway}, {"bare", bare.URL}} {
		b.Run(c.name, func(b *testing.B) {
			get := exchangeOver(b, c.base, refused, http.StatusTooManyRequests)
			begun := cpuTime(b)
			for b.Loop() {
				get()
			}
			b.ReportMetric(float64((cpuTime(b)-begun).Nanoseconds())/float64(b.N), "cpu-ns/op")
		})
	}
}

// silentPeer returns the address of a peer that accepts connections and says nothing.
func silentPeer(tb testing.TB) (addr string) {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	var accepting sync.WaitGroup
	accepting.Go(func() {
		var conns []net.Conn
		for {
			c, err := l.Accept()
			if err != nil { // the test has ended
				break
			}
			conns = append(conns, c)
		}
		for _, c := range conns {
			c.Close()
		}
	})
	tb.Cleanup(func() { l.Close(); accepting.Wait() })
	public, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		tb.Fatal(err)
	}
	key, err := crypto.UnmarshalEd25519PublicKey(public)
	if err != nil {
		tb.Fatal(err)
	}
	id, err := peer.IDFromPublicKey(key)
	if err != nil {
		tb.Fatal(err)
	}
	return fmt.Sprintf("/ip4/127.0.0.1/tcp/%d/p2p/%s", l.Addr().(*net.TCPAddr).Port, id)
}
