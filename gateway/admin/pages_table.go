package admin

import (
	"net/http"

	"allium/gateway/api"
	"allium/gateway/exchange"
)

// Pages are the listeners' own, which wait for nothing.
func (g *Handlers) Pages() []exchange.Endpoint {
	return []exchange.Endpoint{
		{
			ID: "healthz", Name: "healthz", Methods: exchange.Reading, Path: "/healthz", On: exchange.OnEvery, Free: true, Loose: true,
			Doc:     "Says that the process runs: ok until it exits.",
			Answers: []exchange.Reply{{Code: http.StatusOK, Payload: exchange.Payload{Media: exchange.MediaText}, Headers: []string{"Cache-Control"}, Doc: "ok"}},
			Serve:   func(w *exchange.Response, r *http.Request, _ exchange.Input) error { return healthz(w, r) },
		},
		{
			ID: "readyz", Name: "readyz", Methods: exchange.Reading, Path: "/readyz", On: exchange.OnEvery, Free: true, Loose: true,
			Doc:     "The gates of readiness, in the order they open.",
			Answers: append(exchange.JSONReplies[api.Readiness]("reads and writes are served, and others are found"), exchange.Reply{Code: http.StatusServiceUnavailable, Payload: exchange.JSONBody[api.Readiness](), Headers: []string{"Cache-Control", "Retry-After", "X-Reason"}, Doc: "some gate is shut"}),
			Serve:   func(w *exchange.Response, r *http.Request, _ exchange.Input) error { return g.readyz(w, r) },
		},
		{
			ID: "metrics", Name: "metrics", Methods: exchange.Reading, Path: "/metrics", On: exchange.OnAdmin, Free: true, Loose: true,
			Doc:     "Metrics for Prometheus, see metrics.md.",
			Answers: []exchange.Reply{{Code: http.StatusOK, Payload: exchange.Payload{Media: "text/plain"}, Headers: []string{"Vary"}, Doc: "the exposition"}},
			Serve:   func(w *exchange.Response, r *http.Request, _ exchange.Input) error { return g.metricsPage(w, r) },
		},
		g.versionEndpoint("version", "/version"), g.versionEndpoint("apiVersion", "/api/v1/version"),
		g.limitsEndpoint("limits", "/limits"), g.limitsEndpoint("apiLimits", "/api/v1/limits"),
	}
}

func (g *Handlers) versionEndpoint(id, path string) exchange.Endpoint {
	return exchange.Endpoint{
		ID: id, Name: "version", Methods: exchange.Reading, Path: path, On: exchange.OnAdmin, Free: true, Loose: true,
		Doc: "Which program runs.", Answers: exchange.JSONReplies[api.Version]("the program"),
		Serve: func(w *exchange.Response, r *http.Request, _ exchange.Input) error { return g.versionPage(w, r) },
	}
}

func (g *Handlers) limitsEndpoint(id, path string) exchange.Endpoint {
	return exchange.Endpoint{
		ID: id, Name: "limits", Methods: exchange.Reading, Path: path, On: exchange.OnAdmin, Free: true, Loose: true,
		Doc: "Every bound of the node with what is in use of it.", Answers: exchange.JSONReplies[api.Limits]("the bounds"),
		Serve: func(w *exchange.Response, r *http.Request, _ exchange.Input) error { return g.limitsPage(w, r) },
	}
}
