package upload

import "allium/gateway/exchange"

// Endpoints returns the routes of uploads. All but OPTIONS need a capability for put. The id of
// an upload is unguessable, so any capability for put that allows the upload's object may
// continue it.
func (g *Handlers) Endpoints() []exchange.Endpoint {
	return []exchange.Endpoint{
		putObjectEndpoint(g.putObject),
		postObjectEndpoint(g.postObject),
		treeEndpoint(g.postTree),
		pageEndpoint(g.page),
		beginUploadEndpoint(g.beginUpload),
		optionsUploadsEndpoint(),
		optionsUploadEndpoint(),
		uploadStateEndpoint(g.uploadState),
		continueUploadEndpoint(g.continueUpload),
		removeUploadEndpoint(g.removeUpload),
	}
}
