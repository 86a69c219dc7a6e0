package node_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"allium/internal/testkit"
	"allium/node/config"
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

// TestTraceAcrossNodes: one fetch is one trace with spans of both nodes, without what was fetched.
func TestTraceAcrossNodes(t *testing.T) {
	t.Parallel()
	c := &spans{}
	collector := httptest.NewServer(c)
	t.Cleanup(collector.Close)
	traced := func(join func(*config.Config)) func(*config.Config) {
		return func(cfg *config.Config) {
			if join != nil {
				join(cfg)
			}
			cfg.Trace.Endpoint, cfg.Trace.Ratio = collector.URL, 1
		}
	}
	holder := start(t, traced(nil))
	asker := start(t, traced(joining(holder)))
	root, _ := addBytes(t, holder, 9, 300_000)
	if _, err := asker.api.Fetch(t.Context(), root.String(), nil); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "both nodes send spans of the fetch", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, served := range c.all {
			if served.Name != "serve get" || served.Node != holder.ID().ID {
				continue
			}
			for _, get := range c.all {
				if get.Name == "get" && get.SpanID == served.ParentSpanID && get.TraceID == served.TraceID &&
					get.Node == asker.ID().ID {
					return above(c.all, get, "tree", "fetch")
				}
			}
		}
		return false
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	if strings.Contains(c.text, strings.TrimPrefix(root.String(), "b3:")) || strings.Contains(c.text, "/ip4/") {
		t.Error("a span has an address")
	}
}

// above reports whether a span with one of those names is above s.
func above(all []sentSpan, s sentSpan, names ...string) bool {
	for _, p := range all {
		if p.SpanID != s.ParentSpanID {
			continue
		}
		for _, name := range names {
			if p.Name == name {
				return true
			}
		}
	}
	return false
}
