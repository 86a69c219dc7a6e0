package admin

import (
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"allium/gateway/api"
	"allium/gateway/exchange"
	"allium/protocols/status"
)

// healthz answers 200 until the process exits.
func healthz(w *exchange.Response, r *http.Request) error {
	w.Header().Set("Cache-Control", "no-store")
	return w.Send(r, http.StatusOK, "text/plain; charset=utf-8", []byte("ok\n"))
}

// readyz lists the gates of SPEC §10. It answers 200 if reads, writes and the network are ready,
// and 503 with the same body otherwise.
func (g *Handlers) readyz(w *exchange.Response, r *http.Request) error {
	page, reason := g.ready()
	if page.Ready {
		return w.SendJSON(r, http.StatusOK, page)
	}
	after := int64(1)
	for _, gate := range page.Gates {
		if !gate.Ready {
			after = max(after, gate.RetryAfter)
		}
	}
	w.Header().Set("Retry-After", strconv.FormatInt(after, 10))
	w.Header().Set("X-Reason", reason.String())
	return w.SendJSON(r, reason.Code(), page)
}

// versionPage returns the version of the program.
func (g *Handlers) versionPage(w *exchange.Response, r *http.Request) error {
	return w.SendJSON(r, http.StatusOK, g.version)
}

// whyPage returns the record of the lookup whose ID the path ends with.
func (g *Handlers) whyPage(w *exchange.Response, r *http.Request, in exchange.Input) error {
	if _, ok := status.ParseLookupID(in.Rest); !ok {
		return status.Errorf(status.BadRequest, "cannot read %q: the ID of a lookup has 16 lowercase hexadecimal digits",
			exchange.Clip(in.Rest))
	}
	why, err := g.node.Why(r.Context(), in.Rest)
	if err != nil {
		return err
	}
	return w.SendJSON(r, http.StatusOK, why)
}

// limitsPage lists every limit of the node.
func (g *Handlers) limitsPage(w *exchange.Response, r *http.Request) error {
	page := api.Limits{Limits: []api.Limit{}}
	for _, l := range g.registry.Snapshot() {
		page.Limits = append(page.Limits, api.Limit{
			Name: l.Name, Kind: string(l.Kind), Capacity: l.Capacity, Current: l.Current, Peak: l.Peak,
			Rejected: l.Rejected, Policy: l.Policy, Path: l.Path,
		})
	}
	return w.SendJSON(r, http.StatusOK, page)
}

// metricsPage returns the metrics in Prometheus' text format.
func (g *Handlers) metricsPage(w *exchange.Response, r *http.Request) error {
	gatherer := g.gatherer
	if gatherer == nil {
		gatherer = prometheus.NewRegistry()
	}
	promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{DisableCompression: true}).ServeHTTP(w, r)
	return nil
}
