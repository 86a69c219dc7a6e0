package admin

import (
	"allium/gateway/api"
	"allium/gateway/exchange"
)

// Pages returns the routes of health, readiness, metrics, lookups, version and limits.
func (g *Handlers) Pages() []exchange.Endpoint {
	return []exchange.Endpoint{
		healthzEndpoint(),
		g.pages.readyzEndpoint(),
		g.pages.metricsEndpoint(),
		g.pages.whyPageEndpoint(),
		g.pages.versionEndpoint("version", "/version"),
		g.pages.versionEndpoint("apiVersion", "/api/v1/version"),
		g.pages.limitsEndpoint("limits", "/limits"),
		g.pages.limitsEndpoint("apiLimits", "/api/v1/limits"),
	}
}

// Endpoints returns the routes of the mutations and of the local API. [api.Node] documents the verbs.
func (g *Handlers) Endpoints() []exchange.Endpoint {
	var all []exchange.Endpoint
	for _, v := range api.Verbs() {
		all = append(all, g.routes(v)...)
	}
	return append(all, g.byHand(
		g.addEndpoint(),
		addFileEndpoint(g),
		g.getEndpoint(),
		g.catEndpoint(),
		g.keepEndpoint(),
		g.filesEndpoint(),
		g.findProvidersEndpoint(),
		g.feed.endpoint(),
		g.setFaultsEndpoint(),
		g.writeFileEndpoint(),
	)...)
}
