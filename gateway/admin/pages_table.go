package admin

import (
	"net/http"

	"allium/gateway/api"
	"allium/gateway/exchange"
	"allium/protocols/status"
)

// Pages returns the routes of health, readiness, metrics, lookups, version and limits.
func (g *Handlers) Pages() []exchange.Endpoint {
	return []exchange.Endpoint{
		{
			ID: "healthz", Name: "healthz", Methods: exchange.Reading, Path: "/healthz",
			On: exchange.OnEvery, Exempt: true, AnyQuery: true,
			Doc: "Reports that the process runs. The answer is ok until it exits.",
			Answers: []exchange.Reply{{
				Code: http.StatusOK, Payload: exchange.Payload{Media: exchange.MediaText},
				Headers: []string{"Cache-Control"}, Doc: "ok",
			}},
			Serve: func(w *exchange.Response, r *http.Request, _ exchange.Input) error { return healthz(w, r) },
		},
		{
			ID: "readyz", Name: "readyz", Methods: exchange.Reading, Path: "/readyz",
			On: exchange.OnEvery, Exempt: true, AnyQuery: true,
			Doc: "Lists the gates of readiness, in the order in which they open.",
			Answers: append(
				exchange.JSONReplies[api.Readiness]("the node serves reads and writes and finds other nodes"),
				exchange.Reply{
					Code: http.StatusServiceUnavailable, Payload: exchange.JSONBody[api.Readiness](),
					Headers: []string{"Cache-Control", "Retry-After", "X-Reason"}, Doc: "a gate is closed",
				}),
			Serve: func(w *exchange.Response, r *http.Request, _ exchange.Input) error { return g.readyz(w, r) },
		},
		{
			ID: "metrics", Name: "metrics", Methods: exchange.Reading, Path: "/metrics",
			On: exchange.OnAdmin, Exempt: true, AnyQuery: true,
			Doc: "Returns metrics for Prometheus, see metrics.md.",
			Answers: []exchange.Reply{{
				Code: http.StatusOK, Payload: exchange.Payload{Media: "text/plain"}, Headers: []string{"Vary"},
				Doc: "the metrics",
			}},
			Serve: func(w *exchange.Response, r *http.Request, _ exchange.Input) error { return g.metricsPage(w, r) },
		},
		{
			ID: "getTrace", Name: "why", Methods: exchange.Reading, Path: "/why/{lookup_id}",
			On: exchange.OnAdmin, Exempt: true, AnyQuery: true,
			Doc:     "Returns the record of a lookup, as the verb why does.",
			Answers: exchange.JSONReplies[api.Why]("the lookup"), Fails: []status.Outcome{status.NotFound, status.BadRequest},
			Serve: g.whyPage,
		},
		g.versionEndpoint("version", "/version"), g.versionEndpoint("apiVersion", "/api/v1/version"),
		g.limitsEndpoint("limits", "/limits"), g.limitsEndpoint("apiLimits", "/api/v1/limits"),
	}
}

func (g *Handlers) versionEndpoint(id, path string) exchange.Endpoint {
	return exchange.Endpoint{
		ID: id, Name: "version", Methods: exchange.Reading, Path: path, On: exchange.OnAdmin, Exempt: true, AnyQuery: true,
		Doc: "Returns the version of the program.", Answers: exchange.JSONReplies[api.Version]("the version"),
		Serve: func(w *exchange.Response, r *http.Request, _ exchange.Input) error { return g.versionPage(w, r) },
	}
}

func (g *Handlers) limitsEndpoint(id, path string) exchange.Endpoint {
	return exchange.Endpoint{
		ID: id, Name: "limits", Methods: exchange.Reading, Path: path, On: exchange.OnAdmin, Exempt: true, AnyQuery: true,
		Doc: "Lists every limit of the node and its use.", Answers: exchange.JSONReplies[api.Limits]("the limits"),
		Serve: func(w *exchange.Response, r *http.Request, _ exchange.Input) error { return g.limitsPage(w, r) },
	}
}
