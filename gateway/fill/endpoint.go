package fill

import (
	"net/http"

	"allium/gateway/exchange"
	"allium/protocols/bao"
	"allium/protocols/status"
)

// Endpoints returns the routes of the public listener.
func (h *Handlers) Endpoints() []exchange.Endpoint {
	return []exchange.Endpoint{{
		ID: "getAsset", Name: "asset", Methods: exchange.Reading, Path: basePath + "{path}",
		On: exchange.OnPublic, AnyQuery: true, ErrorPages: true,
		Doc: "Returns a file of a configured source. {path} is the name of the source and a path in it.",
		More: "A source is a directory, or an https origin: the node gets the file from there when it does not have " +
			"it, or when its copy is no longer fresh (live fill). Nothing of the request but the path goes to the " +
			"origin. One fill serves all who ask, and they get the bytes as they arrive, without ETag, not proved " +
			"yet, and cut off if the origin breaks off. A request with a range, a condition or format=bao waits " +
			"until the file is stored. A stored file is served as /o/ serves it, with the address of its bytes as " +
			"its ETag. If the origin fails or is slow, a stale copy is served with Age and Warning, for " +
			"`edge.max_stale`, unless the origin forbids it (must-revalidate, s-maxage, no-cache). The bytes of a " +
			"source with a manifest are proved before any is sent.",
		Params: []exchange.Param{
			{Name: "format", Of: []string{"bao"}, Doc: "asks for the verified encoding, as for /o/"},
			{Name: "bytes", Doc: "with format=bao: the range of the file's bytes to encode"},
		},
		Headers: []string{"Accept", "Range", "If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since",
			"If-Range", "Cache-Control", "Request-Timeout"},
		Answers: []exchange.Reply{
			{
				Code: http.StatusOK, Payload: exchange.Payload{Media: exchange.MediaAny}, Headers: assetHeaders,
				Doc: "the whole file",
			},
			{
				Code: http.StatusPartialContent, Payload: exchange.Payload{Media: exchange.MediaAny},
				Headers: append([]string{"Content-Range"}, assetHeaders...), Doc: "the range",
			},
			{
				Code: http.StatusPartialContent, Payload: exchange.Payload{Media: "multipart/byteranges"},
				Headers: assetHeaders, Doc: "several ranges, each a part with its own Content-Range",
			},
			{
				Code: http.StatusOK, Payload: exchange.Payload{Media: bao.MediaType}, Headers: encodingHeaders,
				Doc: "the verified encoding, of the range in the query if there is one",
			},
			{
				Code: http.StatusPartialContent, Payload: exchange.Payload{Media: bao.MediaType},
				Headers: append([]string{"Content-Range"}, encodingHeaders...),
				Doc:     "the verified encoding of the range in the header Range",
			},
			{
				Code: http.StatusNotModified,
				Headers: []string{"ETag", "Last-Modified", "Cache-Control", "Vary", "Link", "Accept-Ranges",
					"Content-Location", "Age", "Warning"},
				Doc: "the client's copy is current",
			},
			{
				Code: http.StatusMovedPermanently, Headers: []string{"Location", "Cache-Control"},
				Doc: "the URL of a directory with its slash, or of the target of a link",
			},
		},
		Fails: []status.Outcome{
			status.BadAddress, status.NotAllowed, status.Denied, status.NotFound, status.Gone, status.Precondition,
			status.BadRange, status.Quota, status.Unsupported, status.BreakerOpen, status.Stale, status.Equivocation,
			status.Corrupt, status.Upstream, status.EtagInvalid, status.NotReady, status.Amnesia, status.TransportDown,
			status.NoBootstrap, status.Timeout, status.HopExceeded, status.NoSpace, status.Canceled,
		},
		Serve: func(w *exchange.Response, r *http.Request, in exchange.Input) error { return h.asset(w, r, in) },
	}}
}

var (
	assetHeaders = []string{
		"Link", "ETag", "Last-Modified", "Cache-Control", "Vary", "Accept-Ranges", "Content-Security-Policy",
		"Cross-Origin-Resource-Policy", "Content-Disposition", "Age", "Warning",
	}
	encodingHeaders = []string{"ETag", "Cache-Control", "Vary", "Accept-Ranges", "Content-Location", "Age", "Warning"}
)
