package node_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"allium/node/config"
	"allium/protocols/b3"
)

// TestSeriesAreBounded: thousands of clients, paths, keys and agents, and peers of their own protocols, leave no more
// series of metrics than the first of them did.
func TestSeriesAreBounded(t *testing.T) {
	t.Parallel()
	n := start(t, func(c *config.Config) { c.Gateway.Rate, c.Gateway.Burst = 1e9, 1<<30 })
	strangers(t, n, 0, 20, 5)
	before := series(t, n)
	strangers(t, n, 20, 520, 60)
	var more []string
	for name := range series(t, n) {
		if !before[name] {
			more = append(more, name)
		}
	}
	if len(more) > 30 { // what a node does for itself meanwhile makes a few
		slices.Sort(more)
		t.Errorf("%d series more than %d: %s", len(more), len(before), strings.Join(more[:30], "\n"))
	}
}

// series returns the names and labels of all series that a node shows, those of its libraries too.
func series(t *testing.T, n *running) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for line := range strings.Lines(string(fetch(t, n.ID().Admin+"/metrics").body)) {
		if at := strings.LastIndexByte(line, ' '); line[0] != '#' && at > 0 {
			all[line[:at]] = true
		}
	}
	if len(all) < 100 {
		t.Fatalf("%d series: %v", len(all), slices.Sorted(maps.Keys(all)))
	}
	return all
}

// strangers are clients from number first to last, each of which has a name for everything that a client can name and
// asks both listeners for it, and so many peers of the same kind.
func strangers(t *testing.T, n *running, first, last, peers int) {
	t.Helper()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := http.Client{Transport: transport}
	for i := first; i < last; i++ {
		root := b3.Sum(fmt.Append(nil, "stranger ", i))
		for _, path := range []string{
			"/o/" + root.String(), "/b3/" + root.String() + fmt.Sprintf("/path-%d", i), fmt.Sprintf("/n/name-%d", i),
			fmt.Sprintf("/edge/packs/pack-%d/1/0/0.png", i), fmt.Sprintf("/edge/assets/source-%d/file-%d", i, i),
			fmt.Sprintf("/path-%d", i), fmt.Sprintf("/api/v1/verb-%d", i),
		} {
			for _, at := range []string{n.ID().Gateway, n.ID().Admin} {
				method := http.MethodGet
				if i%10 == 0 {
					method = fmt.Sprintf("METHOD%d", i)
				}
				req, err := http.NewRequestWithContext(t.Context(), method, at+path, nil)
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("User-Agent", fmt.Sprintf("agent/%d", i))
				req.Header.Set("Authorization", fmt.Sprintf("Bearer token-%d", i))
				req.Header.Set("Cache-Control", "only-if-cached")
				req.Header.Set("Origin", fmt.Sprintf("https://origin-%d.example", i))
				resp, err := client.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, resp.Body) // an answer of any kind
				resp.Body.Close()
			}
		}
	}
	to, err := peer.AddrInfoFromString(n.ID().Addrs[0])
	if err != nil {
		t.Fatal(err)
	}
	for i := first; i < first+peers; i++ {
		h, err := libp2p.New(libp2p.NoListenAddrs, libp2p.DisableRelay(), libp2p.UserAgent(fmt.Sprintf("agent/%d", i)))
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Connect(t.Context(), *to); err != nil {
			t.Error(err)
		}
		own := protocol.ID(fmt.Sprintf("/protocol/%d", i))
		if s, err := h.NewStream(t.Context(), to.ID, own); err == nil {
			_ = s.Reset()
			t.Errorf("the node speaks %s", own)
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}
}
