package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"allium/gateway/client"
	"allium/protocols/status"
)

// sendJSON answers with v.
func sendJSON(w *response, r *http.Request, code int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("gateway: encode the answer: %w", err)
	}
	w.Header().Set("Cache-Control", "no-store")
	return w.send(r, code, "application/json", append(body, '\n'))
}

// healthz says that the process runs. It stays 200 until the node exits.
func healthz(w *response, r *http.Request) error {
	w.Header().Set("Cache-Control", "no-store")
	return w.send(r, http.StatusOK, "text/plain; charset=utf-8", []byte("ok\n"))
}

// readyz shows the gates of SPEC §10: 200 when reads and writes are served,
// 503 with the same body otherwise.
func (g *Gateway) readyz(w *response, r *http.Request) error {
	page, reason := g.readiness()
	if page.Ready {
		return sendJSON(w, r, http.StatusOK, page)
	}
	after := int64(1)
	for _, gate := range page.Gates {
		if !gate.Ready {
			after = max(after, gate.RetryAfter)
		}
	}
	w.Header().Set("Retry-After", strconv.FormatInt(after, 10))
	w.Header().Set("X-Reason", reason.String())
	return sendJSON(w, r, reason.Code(), page)
}

// readiness is the node's page, with the gateway's own drain before its gates,
// and why the node is not ready if it is not.
func (g *Gateway) readiness() (client.Readiness, status.Outcome) {
	page := g.deps.Ready()
	if page.Gates == nil {
		page.Gates = []client.Gate{}
	}
	if !g.flight.draining() {
		return page, status.NotReady
	}
	page.Ready, page.Reads, page.Writes = false, false, false
	page.Gates = slices.Insert(page.Gates, 0, client.Gate{
		Name: "draining", Need: 1, RetryAfter: 1, Fix: "the node is shutting down; ask another, or wait until it is back",
	})
	return page, status.Draining
}

// version says which program runs.
func (g *Gateway) version(w *response, r *http.Request) error {
	return sendJSON(w, r, http.StatusOK, g.deps.Version)
}

// limits lists every bound of the node.
func (g *Gateway) limits(w *response, r *http.Request) error {
	page := client.Limits{Limits: []client.Limit{}}
	for _, l := range g.deps.Limits.Snapshot() {
		page.Limits = append(page.Limits, client.Limit{
			Name: l.Name, Kind: string(l.Kind), Capacity: l.Capacity, Current: l.Current, Peak: l.Peak,
			Rejected: l.Rejected, Policy: l.Policy, Path: l.Path,
		})
	}
	return sendJSON(w, r, http.StatusOK, page)
}

// metricsPage is the Prometheus exposition.
func (g *Gateway) metricsPage(w *response, r *http.Request) error {
	gatherer := g.deps.Gatherer
	if gatherer == nil {
		gatherer = prometheus.NewRegistry()
	}
	promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{DisableCompression: true}).ServeHTTP(w, r)
	return nil
}
