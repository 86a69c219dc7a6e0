package upload

import "allium/gateway/exchange"

// Endpoints returns the routes of uploads. All but OPTIONS need a capability for put. The id of
// an upload is unguessable, so any capability for put that allows the upload's object may
// continue it.
func (g *Handlers) Endpoints() []exchange.Endpoint {
	return []exchange.Endpoint{
		g.putObjectEndpoint(),
		g.postObjectEndpoint(),
		g.treeEndpoint(),
		g.pageEndpoint(),
		g.beginUploadEndpoint(),
		optionsUploadsEndpoint(),
		optionsUploadEndpoint(),
		g.uploadStateEndpoint(),
		g.continueUploadEndpoint(),
		g.removeUploadEndpoint(),
	}
}
