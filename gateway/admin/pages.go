package admin

import (
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"allium/gateway/api"
	"allium/gateway/exchange"
	"allium/internal/limits"
	"allium/protocols/status"
)

// pages serve what operators and programs that watch the node read.
type pages struct {
	node     api.Node
	ready    func() (api.Readiness, status.Outcome)
	version  api.Version
	gatherer prometheus.Gatherer // nil: there are no metrics
	limits   *limits.Registry    // nil: there are no limits
}

func healthzEndpoint() exchange.Endpoint {
	return exchange.Endpoint{
		ID: "healthz", Name: "healthz", Methods: exchange.Reading, Path: "/healthz",
		On: exchange.OnEvery, Exempt: true, AnyQuery: true,
		Doc: "Reports that the process runs. The answer is ok until it exits.",
		Answers: []exchange.Reply{{
			Code: http.StatusOK, Payload: exchange.Payload{Media: exchange.MediaText},
			Headers: []string{"Cache-Control"}, Doc: "ok",
		}},
		Serve: func(w *exchange.Response, r *http.Request, _ exchange.Input) error { return healthz(w, r) },
	}
}

// healthz answers 200 until the process exits.
func healthz(w *exchange.Response, r *http.Request) error {
	w.Header().Set("Cache-Control", "no-store")
	return w.Send(r, http.StatusOK, "text/plain; charset=utf-8", []byte("ok\n"))
}

func (p *pages) readyzEndpoint() exchange.Endpoint {
	return exchange.Endpoint{
		ID: "readyz", Name: "readyz", Methods: exchange.Reading, Path: "/readyz",
		On: exchange.OnEvery, Exempt: true, AnyQuery: true,
		Doc: "Lists the gates of readiness, in the order in which they open.",
		Answers: append(
			exchange.JSONReplies[api.Readiness]("the node serves reads and writes and finds other nodes"),
			exchange.Reply{
				Code: http.StatusServiceUnavailable, Payload: exchange.JSONBody[api.Readiness](),
				Headers: []string{"Cache-Control", "Retry-After", "X-Reason"}, Doc: "a gate is closed",
			}),
		Serve: func(w *exchange.Response, r *http.Request, _ exchange.Input) error { return p.readyz(w, r) },
	}
}

// readyz lists the gates of SPEC §10. It answers 200 if reads, writes and the network are ready,
// and 503 with the same body otherwise.
func (p *pages) readyz(w *exchange.Response, r *http.Request) error {
	page, reason := p.ready()
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

func (p *pages) versionEndpoint(id, path string) exchange.Endpoint {
	return exchange.Endpoint{
		ID: id, Name: "version", Methods: exchange.Reading, Path: path, On: exchange.OnAdmin,
		Exempt: true, AnyQuery: true,
		Doc: "Returns the version of the program.", Answers: exchange.JSONReplies[api.Version]("the version"),
		Serve: func(w *exchange.Response, r *http.Request, _ exchange.Input) error { return p.versionPage(w, r) },
	}
}

// versionPage returns the version of the program.
func (p *pages) versionPage(w *exchange.Response, r *http.Request) error {
	return w.SendJSON(r, http.StatusOK, p.version)
}

func (p *pages) limitsEndpoint(id, path string) exchange.Endpoint {
	return exchange.Endpoint{
		ID: id, Name: "limits", Methods: exchange.Reading, Path: path, On: exchange.OnAdmin,
		Exempt: true, AnyQuery: true,
		Doc: "Lists every limit of the node and its use.", Answers: exchange.JSONReplies[api.Limits]("the limits"),
		Serve: func(w *exchange.Response, r *http.Request, _ exchange.Input) error { return p.limitsPage(w, r) },
	}
}

// limitsPage lists every limit of the node.
func (p *pages) limitsPage(w *exchange.Response, r *http.Request) error {
	all := api.Limits{Limits: []api.Limit{}}
	for _, l := range p.limits.Snapshot() {
		all.Limits = append(all.Limits, api.LimitOf(l))
	}
	return w.SendJSON(r, http.StatusOK, all)
}

func (p *pages) metricsEndpoint() exchange.Endpoint {
	return exchange.Endpoint{
		ID: "metrics", Name: "metrics", Methods: exchange.Reading, Path: "/metrics",
		On: exchange.OnAdmin, Exempt: true, AnyQuery: true,
		Doc: "Returns metrics for Prometheus, see metrics.md.",
		Answers: []exchange.Reply{{
			Code: http.StatusOK, Payload: exchange.Payload{Media: "text/plain"}, Headers: []string{"Vary"},
			Doc: "the metrics",
		}},
		Serve: func(w *exchange.Response, r *http.Request, _ exchange.Input) error { return p.metricsPage(w, r) },
	}
}

// metricsPage returns the metrics in Prometheus' text format.
func (p *pages) metricsPage(w *exchange.Response, r *http.Request) error {
	gatherer := p.gatherer
	if gatherer == nil {
		gatherer = prometheus.NewRegistry()
	}
	promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{DisableCompression: true}).ServeHTTP(w, r)
	return nil
}
