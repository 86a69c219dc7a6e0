package content

import (
	"net/http"

	"allium/gateway/asset"
	"allium/gateway/exchange"
	"allium/protocols/status"
)

// Endpoints returns the routes of the public listener.
func (g *Handlers) Endpoints() []exchange.Endpoint {
	return []exchange.Endpoint{
		g.landing.endpoint(),
		asset.IconEndpoint(),
		openEndpoint("open", "/b3"),
		openEndpoint("openSlash", "/b3/"),
		g.objectEndpoint(),
		g.browseEndpoint(),
		g.browseNameEndpoint(),
		siteEndpoint(g),
	}
}

// canonicalAddress is the answer to an address in another form than b3: and lowercase digits.
var canonicalAddress = exchange.Reply{
	Code: http.StatusPermanentRedirect, Headers: []string{"Location", "Cache-Control"},
	Doc: "the address in its one form, b3: and 64 lowercase digits",
}

// The headers, answers and outcomes that all endpoints of an object's bytes share.
var (
	contentHeaders = []string{"Range", "If-Match", "If-None-Match", "If-Modified-Since",
		"If-Unmodified-Since", "If-Range",
		"Cache-Control", "Request-Timeout"}
	contentAnswers = []exchange.Reply{
		{
			Code: http.StatusOK, Payload: exchange.Payload{Media: exchange.MediaAny},
			Headers: objectHeaders, Doc: "the whole object",
		},
		{
			Code: http.StatusPartialContent, Payload: exchange.Payload{Media: exchange.MediaAny},
			Headers: append([]string{"Content-Range"}, objectHeaders...), Doc: "the range",
		},
		{
			Code: http.StatusPartialContent, Payload: exchange.Payload{Media: mediaByteranges},
			Headers: objectHeaders, Doc: "several ranges, each a part with its own Content-Range",
		},
		{
			Code: http.StatusNotModified,
			Headers: []string{
				"ETag", "Last-Modified", "Cache-Control", "Vary", "Link", "Accept-Ranges", "Content-Location",
			},
			Doc: "the client's copy is current",
		},
	}
	objectHeaders = []string{
		"Link", "ETag", "Last-Modified", "Cache-Control", "Vary", "Accept-Ranges", "Content-Security-Policy",
		"Cross-Origin-Resource-Policy", "Content-Disposition",
	}
	contentFails = []status.Outcome{
		status.BadAddress, status.NotAllowed, status.NotFound, status.Gone, status.Precondition, status.BadRange,
		status.Denied, status.Corrupt, status.Upstream, status.BreakerOpen, status.NotReady, status.Amnesia,
		status.TransportDown, status.NoBootstrap, status.Timeout, status.HopExceeded,
	}
)
