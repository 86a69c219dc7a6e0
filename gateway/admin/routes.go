package admin

import (
	"slices"

	"allium/gateway/exchange"
)

// Pages returns the routes of health, readiness, metrics, lookups, version and limits.
func (g *Handlers) Pages() []exchange.Endpoint {
	return []exchange.Endpoint{
		healthzEndpoint(),
		g.readyzEndpoint(),
		g.metricsEndpoint(),
		g.whyPageEndpoint(),
		g.versionEndpoint("version", "/version"),
		g.versionEndpoint("apiVersion", "/api/v1/version"),
		g.limitsEndpoint("limits", "/limits"),
		g.limitsEndpoint("apiLimits", "/api/v1/limits"),
	}
}

// Endpoints returns the routes of the mutations and of the local API.
func (g *Handlers) Endpoints() []exchange.Endpoint {
	return slices.Concat(
		g.mutations(),
		g.api(),
		g.names(),
		g.verbs(g.writeFileEndpoint()),
	)
}

// mutations returns the mutations of SPEC §9. They do what the local API's verbs do, with JSON in
// and out, for programs that may have to repeat a request.
func (g *Handlers) mutations() []exchange.Endpoint {
	return []exchange.Endpoint{
		g.adminPinEndpoint(),
		g.adminUnpinEndpoint(),
		g.adminReindexEndpoint(),
		g.adminRepairEndpoint(),
		g.adminGCEndpoint(),
		g.reloadEndpoint(),
		g.adminDrainEndpoint(),
	}
}

// api returns the routes of the local API (SPEC §11). [api.Node] documents the verbs. The ID of a
// route is the name of its method there.
func (g *Handlers) api() []exchange.Endpoint {
	return g.verbs(
		g.addEndpoint(),
		g.getEndpoint(),
		g.catEndpoint(),
		g.fetchEndpoint(),
		g.listEndpoint(),
		g.diffEndpoint(),
		g.keepEndpoint(),
		g.filesEndpoint(),
		g.statEndpoint(),
		g.statStoreEndpoint(),
		g.damageEndpoint(),
		g.acceptDamageEndpoint(),
		g.verifyEndpoint(),
		g.pinEndpoint(),
		g.unpinEndpoint(),
		g.gcEndpoint(),
		g.gcWhyEndpoint(),
		g.pinsEndpoint(),
		g.resolveEndpoint(),
		g.findProvidersEndpoint(),
		g.whyEndpoint(),
		g.announceEndpoint(),
		g.idEndpoint(),
		g.peersEndpoint(),
		g.reachEndpoint(),
		g.seedsEndpoint(),
		g.eventsEndpoint(),
		g.shareEndpoint(),
		g.durabilityEndpoint(),
		g.objectDurabilityEndpoint(),
		g.awaitCopiesEndpoint(),
		g.askPeerEndpoint(),
		g.connectEndpoint(),
		g.disconnectEndpoint(),
		g.pingEndpoint(),
		g.faultsEndpoint(),
		g.setFaultsEndpoint(),
		g.resumeCopiesEndpoint(),
		g.evacuateEndpoint(),
		g.stopEvacuationEndpoint(),
		g.drainEndpoint(),
	)
}

// names returns the verbs of the names that the node publishes. Two of them are mutations.
func (g *Handlers) names() []exchange.Endpoint {
	return slices.Concat(
		[]exchange.Endpoint{
			g.publishNameEndpoint(),
			g.withdrawNameEndpoint(),
		},
		g.verbs(
			g.ownNamesEndpoint(),
			g.expandNameEndpoint(),
		),
	)
}
