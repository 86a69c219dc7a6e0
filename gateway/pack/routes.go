package pack

import (
	"net/http"

	"allium/gateway/api"
	"allium/gateway/exchange"
	"allium/gateway/pack/viewer"
	"allium/protocols/status"
)

// Endpoints returns the routes of the public listener.
func (h *Handlers) Endpoints() []exchange.Endpoint {
	headers := []string{"ETag", "Cache-Control", "Vary", "Cross-Origin-Resource-Policy"}
	return []exchange.Endpoint{viewer.Endpoint(), {
		ID: "getPack", Name: "pack", Methods: exchange.Reading, Path: "/edge/packs/{path}",
		On: exchange.OnPublic, AnyQuery: true, ErrorPages: true,
		Doc: "Returns a tile of a pack, its description, or a page with its map. {path} is PACK/Z/X/Y.EXT, " +
			"PACK.json or PACK/.",
		More: "The packs of a node are those of `edge.packs`, and those that `allium pack mount` has mounted. The " +
			"description is TileJSON 3.0. Its tiles have URLs with a parameter v, which differs for each state of " +
			"the pack, so that they never change. A vector tile that the pack does not have is 204, another one 404. " +
			"The ETag is the address of the stored tile; a tile that is decompressed for a client that does not " +
			"accept gzip has another ETag. Every tile of a pack that an address or a name stands for is proved " +
			"before it is sent, and fetched from peers if this node does not have it.",
		Headers: []string{"Accept-Encoding", "Cache-Control", "If-Match", "If-None-Match", "Request-Timeout"},
		Answers: []exchange.Reply{
			{
				Code: http.StatusOK, Payload: exchange.Payload{Media: exchange.MediaAny},
				Headers: append([]string{"Content-Encoding", "Content-Security-Policy"}, headers...), Doc: "the tile",
			},
			{Code: http.StatusOK, Payload: exchange.JSONBody[api.TileJSON](), Headers: headers, Doc: "the description"},
			{
				Code: http.StatusOK, Payload: exchange.Payload{Media: exchange.MediaHTML},
				Headers: append([]string{"Content-Security-Policy"}, headers...), Doc: "the map",
			},
			{Code: http.StatusNoContent, Headers: headers, Doc: "the pack has no such vector tile: it is empty"},
			{
				Code: http.StatusMovedPermanently, Headers: []string{"Location", "Cache-Control"},
				Doc: "the page, with the slash at its end",
			},
			{Code: http.StatusNotModified, Headers: headers, Doc: "the client's copy is current"},
		},
		ErrorHeaders: []string{"ETag", "Vary", "Cross-Origin-Resource-Policy"},
		Fails: []status.Outcome{
			status.Unsupported, status.NotFound, status.Precondition, status.DecompressCap, status.Denied,
			status.Corrupt, status.Upstream, status.BreakerOpen, status.NotReady, status.Amnesia, status.TransportDown,
			status.NoBootstrap, status.Timeout, status.HopExceeded,
		},
		Serve: h.serve,
	}}
}
