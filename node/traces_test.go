package node_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"allium/gateway/fill"
	"allium/internal/testkit"
	"allium/node/config"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// spans is a collector: it remembers the spans of each node.
type spans struct {
	mu   sync.Mutex
	all  []sentSpan
	text string
}

type sentSpan struct {
	Node                                string
	TraceID, SpanID, ParentSpanID, Name string
}

func (c *spans) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var m struct {
		ResourceSpans []struct {
			Resource struct {
				Attributes []struct {
					Key   string
					Value struct{ StringValue string }
				}
			}
			ScopeSpans []struct{ Spans []sentSpan }
		}
	}
	if json.Unmarshal(body, &m) != nil || len(m.ResourceSpans) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text += string(body)
	for _, s := range m.ResourceSpans[0].ScopeSpans[0].Spans {
		s.Node = m.ResourceSpans[0].Resource.Attributes[2].Value.StringValue
		c.all = append(c.all, s)
	}
}

// traced returns a change that makes a node send all traces to c, and that joins others if join is not nil.
func (c *spans) traced(t *testing.T) func(join func(*config.Config)) func(*config.Config) {
	collector := httptest.NewServer(c)
	t.Cleanup(collector.Close)
	return func(join func(*config.Config)) func(*config.Config) {
		return func(cfg *config.Config) {
			if join != nil {
				join(cfg)
			}
			cfg.Trace.Endpoint, cfg.Trace.Ratio = collector.URL, 1
		}
	}
}

// step is a span of a chain: a name, and the node whose span it is.
type step struct {
	node *running
	name string
}

// await waits until the chain has arrived: each span is the parent of the next, all are of one trace, and the first
// begins it.
func (c *spans) await(t *testing.T, chain ...step) {
	t.Helper()
	if testkit.Within(20*time.Second, func() bool { return c.has("", "", chain) }) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	for _, s := range c.all {
		all = append(all, fmt.Sprintf("%s: %s of %s < %s of %.8s", s.TraceID[:4], s.Name, s.SpanID, s.ParentSpanID, s.Node))
	}
	t.Errorf("no chain %v in\n%s", chain, strings.Join(all, "\n"))
}

// has reports whether there is a chain below a span of a trace.
func (c *spans) has(trace, parent string, chain []step) bool {
	if len(chain) == 0 {
		return true
	}
	c.mu.Lock()
	all := slices.Clone(c.all)
	c.mu.Unlock()
	for _, s := range all {
		if s.Name == chain[0].name && s.Node == chain[0].node.ID().ID && s.ParentSpanID == parent &&
			(trace == "" || s.TraceID == trace) && c.has(s.TraceID, s.SpanID, chain[1:]) {
			return true
		}
	}
	return false
}

// silent fails the test if a span has what was asked for, or an address.
func (c *spans) silent(t *testing.T, secrets ...string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range append(secrets, "/ip4/") {
		if strings.Contains(c.text, strings.TrimPrefix(s, "b3:")) {
			t.Errorf("a span has %q", s)
		}
	}
}

// TestTraceAcrossNodes: one fetch is one trace with spans of both nodes, without what was fetched.
func TestTraceAcrossNodes(t *testing.T) {
	t.Parallel()
	c := &spans{}
	traced := c.traced(t)
	holder := start(t, traced(nil))
	asker := start(t, traced(joining(holder)))
	root, _ := addBytes(t, holder, 9, 300_000)
	if _, err := asker.api.Fetch(t.Context(), root.String(), nil); err != nil {
		t.Fatal(err)
	}
	c.await(t, step{asker, "tree"}, step{asker, "get"}, step{holder, "serve get"})
	c.silent(t, root.String())
}

// TestTraceIndex: what a peer looks up, in order to answer what it is asked about a key, is of the trace of the asker.
func TestTraceIndex(t *testing.T) {
	t.Parallel()
	c := &spans{}
	traced := c.traced(t)
	holder := start(t, traced(func(c *config.Config) { c.Resolver.AskConnected = false }))
	between := start(t, traced(func(c *config.Config) {
		joiningByRecords(holder)(c)
		c.Resolver.Recurse = true
	}))
	root, _ := addBytes(t, holder, 9, 300_000)
	asker := start(t, traced(func(c *config.Config) {
		c.Resolver.AskConnected, c.Resolver.Ask = false, between.ID().Addrs
		c.DHT.Seeds.Bootstrap = between.ID().Addrs
	}))
	if _, err := asker.api.Fetch(t.Context(), root.String(), nil); err != nil {
		t.Fatal(err)
	}
	c.await(t, step{asker, "tree"}, step{asker, "call"}, step{between, "serve index"})
	c.await(t, step{asker, "tree"}, step{asker, "get"}, step{holder, "serve get"})
	missing := b3.Sum([]byte("missing")).String()
	if _, err := asker.api.Fetch(t.Context(), missing, nil); status.Of(err) != status.NotFound {
		t.Fatal(err)
	}
	c.await(t, step{asker, "tree"}, step{asker, "call"}, step{between, "serve index"}, step{between, "providers"},
		step{between, "search"})
	c.silent(t, root.String(), missing)
}

// TestTraceFill: the fill of a file whose manifest another node has is one trace: the manifest that is fetched there,
// the mirrors that are asked, and the store.
func TestTraceFill(t *testing.T) {
	t.Parallel()
	c := &spans{}
	traced := c.traced(t)
	dir := filepath.Join(t.TempDir(), "site")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "secret.txt"), []byte("there"))
	holder := start(t, traced(nil))
	root := add(t, holder, dir)[0].Root.String()
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "there")
	}))
	t.Cleanup(origin.Close)
	mirror := start(t, traced(func(c *config.Config) {
		joining(holder)(c)
		src := fill.DefaultSource()
		src.URL, src.Private, src.Manifest = origin.URL, true, root
		c.Edge.Fill.Sources = map[string]fill.Source{"o": src}
	}))
	awaitProvider(t, mirror, root)
	if f := fetch(t, mirror.ID().Gateway+"/edge/assets/o/secret.txt"); string(f.body) != "there" {
		t.Fatalf("%d %s", f.code, f.body)
	}
	c.await(t, step{mirror, "manifest"}, step{mirror, "open"}, step{mirror, "get"}, step{holder, "serve get"})
	c.await(t, step{mirror, "manifest"}, step{mirror, "fill"}, step{mirror, "origin"})
	c.await(t, step{mirror, "manifest"}, step{mirror, "fill"}, step{mirror, "store"})
	c.silent(t, root, "secret", "127.0.0.1")
}

// TestTraceUpload: an upload is one trace with what it does in the store.
func TestTraceUpload(t *testing.T) {
	t.Parallel()
	c := &spans{}
	home := t.TempDir()
	token := mint(t, home, time.Now().Add(time.Hour), "op in put")
	n := startAt(t, home, c.traced(t)(nil))
	if a := request(t, n, token, "POST", "/o", strings.NewReader("there")); a.code != http.StatusCreated {
		t.Fatal(a.code, a.body)
	}
	c.await(t, step{n, "upload"}, step{n, "store"})
	c.silent(t, b3.Sum([]byte("there")).String())
}
