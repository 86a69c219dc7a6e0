package node_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"allium/gateway/api"
	"allium/gateway/api/client"
	"allium/internal/testkit"
	"allium/node"
	"allium/node/config"
	"allium/node/files"
	"allium/node/p2p"
	"allium/protocols/status"
)

// running is a node in this process.
type running struct {
	*node.Node
	home string
	api  *client.Client
	stop func() error
}

// start runs a node until the test, or stop, ends it.
func start(t testing.TB, change func(*config.Config)) *running {
	t.Helper()
	return startAt(t, t.TempDir(), change)
}

// startAt is start with a home that there may have been before.
func startAt(t testing.TB, home string, change func(*config.Config)) *running {
	t.Helper()
	cfg := config.Default(p2p.Testnet)
	if change != nil {
		change(&cfg)
	}
	n, err := node.New(home, cfg, node.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ready, done := make(chan struct{}), make(chan struct{})
	var ended error
	go func() {
		defer close(done)
		ended = n.Run(ctx, func() { close(ready) })
	}()
	r := &running{Node: n, home: home}
	r.stop = sync.OnceValue(func() error {
		cancel()
		<-done
		return ended
	})
	t.Cleanup(func() {
		if err := r.stop(); err != nil {
			t.Errorf("the node stopped with %v", err)
		}
	})
	select {
	case <-ready:
	case <-done:
		t.Fatalf("the node did not start: %v", ended)
	}
	socket, err := api.SocketPath(home)
	if err != nil {
		t.Fatal(err)
	}
	if r.api, err = client.New(socket); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.api.Close)
	return r
}

// joining makes a node bootstrap from another.
func joining(seed *running) func(*config.Config) {
	return func(c *config.Config) { c.DHT.Seeds.Bootstrap = seed.ID().Addrs }
}

// joiningByRecords is joining for a node that finds providers by records alone.
func joiningByRecords(seed *running) func(*config.Config) {
	return func(c *config.Config) {
		joining(seed)(c)
		c.Resolver.AskConnected = false
	}
}

// noLeaks fails the test when goroutines are left after its cleanups.
func noLeaks(t *testing.T) {
	t.Helper()
	ignore := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, ignore) })
}

// add adds files on a node and returns the address of each.
func add(t testing.TB, n *running, paths ...string) []api.Added {
	t.Helper()
	r, w := io.Pipe()
	go func() { _ = w.CloseWithError(files.WriteTar(w, files.DiskItems(paths...))) }()
	var all []api.Added
	for a, err := range n.api.Add(t.Context(), r, api.AddOptions{}, nil) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, a)
	}
	return all
}

// newTree writes a directory of n small files and a large one.
func newTree(t *testing.T, n int) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "tree")
	for i := range n {
		d := filepath.Join(dir, fmt.Sprintf("d%02d", i/20))
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(d, fmt.Sprintf("f%03d", i)),
			bytes.Repeat([]byte{byte(i), byte(i >> 8)}, 100+i),
			0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "large"), bytes.Repeat([]byte("large and larger"), 40_000),
		0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// patience is how long a test waits for what is bound to come: a hang is a
// failure, and a busy machine is none.
const patience = 2 * time.Minute

// awaitProvider waits until n finds a provider of the address: announcing runs
// behind the add.
func awaitProvider(t *testing.T, n *running, root string) {
	t.Helper()
	testkit.Eventually(t, "a provider of "+root, func() bool {
		for _, err := range n.api.FindProviders(t.Context(), root, api.FindOptions{Query: api.Query{Limit: 1}}) {
			if err == nil {
				return true
			}
		}
		return false
	})
}

// TestTwoStrangersMeet is the whole path in one process: A and B know only the
// seed; B finds A through it and fetches what A added.
func TestTwoStrangersMeet(t *testing.T) {
	noLeaks(t)
	seed := start(t, nil)
	a, b := start(t, joining(seed)), start(t, joining(seed))
	dir := newTree(t, 300)
	added := add(t, a, dir)[0]
	awaitProvider(t, b, added.Root.String())

	requests := metric(t, a, `object_request_latency_seconds_count{op="get",side="server"}`)
	f, err := b.api.Fetch(t.Context(), added.Root.String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if f.Kind != api.Directory || f.Objects < 301 {
		t.Errorf("fetched %+v", f)
	}
	if asked := metric(t, a, `object_request_latency_seconds_count{op="get",side="server"}`) - requests; asked < 1 ||
		asked > 30 {
		t.Errorf("%d requests for 300 files: one for each would be a round trip per file", asked)
	}
	s, err := b.api.Get(t.Context(), added.Root.String())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Body.Close()
	out := filepath.Join(t.TempDir(), "out")
	if err := files.Extract(s, out, files.ExtractOptions{}, nil); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"large", "d00/f001", "d14/f299"} {
		want, _ := os.ReadFile(filepath.Join(dir, name))
		if got, err := os.ReadFile(filepath.Join(out, name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s differs (%v)", name, err)
		}
	}
}

// metric reads one counter from a node's /metrics; absent is 0.
func metric(t testing.TB, n *running, prefix string) (sum int64) {
	t.Helper()
	resp, err := http.Get(n.ID().Admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	defer http.DefaultClient.CloseIdleConnections()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, prefix) {
			var v float64
			if _, err := fmt.Sscan(line[strings.LastIndexByte(line, ' ')+1:], &v); err != nil {
				t.Fatal(err)
			}
			sum += int64(v)
		}
	}
	return sum
}

// TestGatewayStreamsWhatPeersHave reads through a node that has nothing.
func TestGatewayStreamsWhatPeersHave(t *testing.T) {
	noLeaks(t)
	a := start(t, nil)
	b := start(t, joining(a))
	dir := newTree(t, 3)
	added := add(t, a, dir)[0]
	awaitProvider(t, b, added.Root.String())
	want, _ := os.ReadFile(filepath.Join(dir, "large"))
	defer http.DefaultClient.CloseIdleConnections()
	for _, tc := range []struct {
		ranges     string
		status     int
		start, end int
	}{
		{"bytes=500000-500099", http.StatusPartialContent, 500_000, 500_100},
		{"", http.StatusOK, 0, len(want)},
		{"bytes=-10", http.StatusPartialContent, len(want) - 10, len(want)},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
			b.ID().Gateway+"/b3/"+added.Root.String()+"/large", nil)
		if err != nil {
			t.Fatal(err)
		}
		if tc.ranges != "" {
			req.Header.Set("Range", tc.ranges)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != tc.status || !bytes.Equal(got, want[tc.start:tc.end]) {
			t.Errorf("%q: %s, %d bytes, %v", tc.ranges, resp.Status, len(got), err)
		}
	}
}

// TestOneHomeOneNode refuses a second node, and a command, on a store in use.
func TestOneHomeOneNode(t *testing.T) {
	a := start(t, nil)
	n, err := node.New(a.home, config.Default(p2p.Testnet), node.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Run(t.Context(), func() { t.Error("it says ready") }); status.Of(err) != status.Busy {
		t.Errorf("a second node: %v", err)
	}
	if _, err := node.OpenOffline(t.Context(), a.home, config.Default(p2p.Testnet)); status.Of(err) != status.Busy {
		t.Errorf("a command beside it: %v", err)
	}
}

// TestDrainEndsTheNode uses the API's way to stop.
func TestDrainEndsTheNode(t *testing.T) {
	noLeaks(t)
	a := start(t, nil)
	if err := a.api.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the end of the socket", func() bool { return a.api.Drain(t.Context()) != nil })
	if err := a.stop(); err != nil {
		t.Error(err)
	}
}

// TestMemoryNodeLeavesNothing runs a micronode's store: nothing below the home
// but the socket's directory.
func TestMemoryNodeLeavesNothing(t *testing.T) {
	noLeaks(t)
	a := start(t, func(c *config.Config) {
		c.Node.Profile, c.Listen.Profile = p2p.Micronode, p2p.Micronode
		c.Listen.Listen, c.Listen.PortMap = []string{"/ip4/127.0.0.1/tcp/0"}, false
		c.Node.Amnesia, c.Store.Backend = true, "memory"
	})
	add(t, a, newTree(t, 5))
	entries, err := os.ReadDir(a.home)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != "run" {
			t.Errorf("%s is on disk", e.Name())
		}
	}
}
