package content

import (
	"net/http"
	"slices"

	"allium/gateway/api"
	"allium/gateway/exchange"
	"allium/protocols/bao"
	"allium/protocols/status"
)

// Endpoints returns the routes of the public listener.
func (g *Handlers) Endpoints() []exchange.Endpoint {
	return []exchange.Endpoint{
		{
			ID: "landing", Name: "landing", Methods: exchange.Reading, Path: "/",
			On: exchange.OnPublic, AnyQuery: true, ErrorPages: true,
			Doc: "Shows the first page: what the gateway is, whether the node is ready, and a field for an address.",
			Answers: []exchange.Reply{{
				Code: http.StatusOK, Payload: exchange.Payload{Media: exchange.MediaHTML},
				Headers: []string{"Cache-Control", "Content-Security-Policy"}, Doc: "the page",
			}},
			Serve: func(w *exchange.Response, r *http.Request, _ exchange.Input) error { return g.landing(w, r) },
		},
		{
			ID: "favicon", Name: "favicon", Methods: exchange.Reading, Path: "/favicon.ico",
			On: exchange.OnPublic, AnyQuery: true,
			Doc: "Returns the icon that browsers request.",
			Answers: []exchange.Reply{{
				Code: http.StatusOK, Payload: exchange.Payload{Media: "image/svg+xml"},
				Headers: []string{"Cache-Control", "Content-Security-Policy"}, Doc: "the icon",
			}},
			Serve: func(w *exchange.Response, r *http.Request, _ exchange.Input) error { return favicon(w, r) },
		},
		{
			ID: "verifyModule", Name: "module", Methods: exchange.Reading, Path: "/verify.mjs",
			On: exchange.OnPublic, AnyQuery: true,
			Doc:     "Returns a JavaScript module that checks verified encodings in a browser (docs/http.md).",
			Headers: []string{"If-Match", "If-None-Match"},
			Answers: []exchange.Reply{
				{
					Code: http.StatusOK, Payload: exchange.Payload{Media: "text/javascript; charset=utf-8"},
					Headers: moduleHeaders, Doc: "the module",
				},
				{Code: http.StatusNotModified, Headers: moduleHeaders, Doc: "the client's copy is current"},
			},
			Fails: []status.Outcome{status.Precondition},
			Serve: func(w *exchange.Response, r *http.Request, _ exchange.Input) error { return module(w, r) },
		},
		openEndpoint("open", "/b3"), openEndpoint("openSlash", "/b3/"),
		{
			ID: "getObject", Name: "object", Methods: exchange.Reading, Path: "/o/{b3}",
			On: exchange.OnPublic, AnyQuery: true,
			Doc: "Returns the bytes of an object. The gateway verifies each chunk group before it sends it.",
			More: "A request may have one range, or more if the operator allows it (`gateway.multi_range`). " +
				"An address with uppercase digits is redirected. The gateway finds and fetches an object that is not " +
				"on this node from peers, unless Cache-Control has only-if-cached. With format=bao, or an Accept that " +
				"names " + bao.MediaType + ", the answer is the verified encoding (docs/http.md).",
			Params: []exchange.Param{
				{
					Name: "format", Of: []string{"bao"},
					Doc: "asks for the verified encoding: the size, 8 bytes little-endian, and the tree's parents " +
						"and chunk groups in pre-order",
				},
				{
					Name: "bytes",
					Doc:  "with format=bao: the range of the object's bytes to encode, FIRST-LAST, FIRST- or -COUNT",
				},
			},
			Headers: append([]string{"Accept"}, contentHeaders...),
			Answers: slices.Concat(contentAnswers, baoAnswers, []exchange.Reply{lowercaseAddress}),
			Fails:   contentFails,
			Serve: func(w *exchange.Response, r *http.Request, in exchange.Input) error {
				return g.object(w, r, in.Rest)
			},
		},
		{
			ID: "browse", Name: "browse", Methods: exchange.Reading, Path: "/b3/{path}",
			On: exchange.OnPublic, AnyQuery: true, ErrorPages: true,
			Doc: "Shows a file, or a directory by its index.html or a listing. " +
				"{path} is an address and a path below it.",
			More: "A directory without the slash at its end is redirected. A symbolic link is redirected to its target " +
				"inside the tree. `Accept: application/json` without text/html asks for a listing as JSON.",
			Params:  pageParams,
			Headers: contentHeaders,
			Answers: browseAnswers,
			Fails:   contentFails,
			Serve: func(w *exchange.Response, r *http.Request, in exchange.Input) error {
				return g.browse(w, r, in.Rest)
			},
		},
		g.browseNameEndpoint(),
	}
}

// browseNameEndpoint is the route of /n/, which answers as /b3/ does.
func (g *Handlers) browseNameEndpoint() exchange.Endpoint {
	return exchange.Endpoint{
		ID: "browseName", Name: "name", Methods: exchange.Reading, Path: "/n/{path}",
		On: exchange.OnPublic, AnyQuery: true, ErrorPages: true,
		Doc: "Shows a file or a directory by a name. {path} is LABEL.ZONE and a path below it.",
		More: "The answer is that of /b3/ for the address that the name stands for, with the same ETag; " +
			"Cache-Control is the time for which the record of the name may be kept. A record that has ended is used if " +
			"max-stale of Cache-Control allows it; the answer has an Age then. The zone is its key, or a short " +
			"name of this node.",
		Params:  pageParams,
		Headers: contentHeaders,
		Answers: withAge(browseAnswers),
		Fails: append(slices.Clone(contentFails),
			status.Gone, status.Stale, status.Equivocation, status.HopExceeded, status.Unsupported),
		Serve: func(w *exchange.Response, r *http.Request, in exchange.Input) error {
			return g.browseName(w, r, in.Rest)
		},
	}
}

// pageParams are the parameters of pages.
var pageParams = []exchange.Param{
	{
		Name: "format", Of: []string{"html", "json"},
		Doc: "asks for a listing in that form, even if there is an index.html",
	},
	{
		Name: "view", Of: []string{viewList, viewGallery, viewPreview},
		Doc: "asks for a page: of a directory as a list or a gallery, even if there is an index.html, or of a file",
	},
	{
		Name: "sort", Of: []string{sortName, sortSize, sortKind},
		Doc: "the order of a page of up to 10,000 entries, directories first; a longer one has the order of its bytes",
	},
	{Name: "order", Of: []string{"asc", "desc"}, Doc: "desc reverses it"},
	{Name: "filter", Kind: exchange.TextParam, Doc: "the page has only names with this in them, in any case"},
}

// withAge returns answers that may also have an Age.
func withAge(answers []exchange.Reply) []exchange.Reply {
	answers = slices.Clone(answers)
	for i := range answers {
		answers[i].Headers = append(slices.Clone(answers[i].Headers), "Age")
	}
	return answers
}

// browseAnswers are the answers of a path below an address or a name.
var browseAnswers = slices.Concat(contentAnswers, []exchange.Reply{
	{
		Code: http.StatusOK, Payload: exchange.JSONBody[api.Listing](),
		Headers: []string{"ETag", "Vary", "Content-Encoding"}, Doc: "a listing; its ETag is weak",
	},
	{
		Code: http.StatusOK, Payload: exchange.Payload{Media: exchange.MediaHTML},
		Headers: []string{"ETag", "Vary", "Content-Encoding"}, Doc: "a listing, or the page of a file; its ETag is weak",
	},
	{
		Code: http.StatusMovedPermanently, Headers: []string{"Location", "Cache-Control"},
		Doc: "the URL of the directory with its slash, or of the link's target",
	},
	lowercaseAddress,
})

var moduleHeaders = []string{"ETag", "Cache-Control", "Cross-Origin-Resource-Policy"}

// lowercaseAddress is the answer to an address with uppercase digits.
var lowercaseAddress = exchange.Reply{
	Code: http.StatusPermanentRedirect, Headers: []string{"Location", "Cache-Control"},
	Doc: "the address in lowercase digits",
}

// The headers, answers and outcomes that all endpoints of an object's bytes share.
var (
	contentHeaders = []string{"Range", "If-Match", "If-None-Match", "If-Range", "Cache-Control", "Request-Timeout"}
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
			Code:    http.StatusNotModified,
			Headers: []string{"ETag", "Cache-Control", "Vary", "Link", "Accept-Ranges", "Content-Location"},
			Doc:     "the client's copy is current",
		},
	}
	baoHeaders = []string{"ETag", "Cache-Control", "Vary", "Accept-Ranges", "Content-Location"}
	baoAnswers = []exchange.Reply{
		{
			Code: http.StatusOK, Payload: exchange.Payload{Media: bao.MediaType}, Headers: baoHeaders,
			Doc: "the verified encoding, of the range in the query if there is one",
		},
		{
			Code: http.StatusPartialContent, Payload: exchange.Payload{Media: bao.MediaType},
			Headers: append([]string{"Content-Range"}, baoHeaders...),
			Doc:     "the verified encoding of the range in the header Range, which counts the object's bytes",
		},
	}
	objectHeaders = []string{
		"Link", "ETag", "Cache-Control", "Vary", "Accept-Ranges", "Content-Security-Policy",
		"Cross-Origin-Resource-Policy", "Content-Disposition",
	}
	contentFails = []status.Outcome{
		status.BadAddress, status.NotAllowed, status.NotFound, status.Gone, status.Precondition, status.BadRange,
		status.Denied, status.Corrupt, status.Upstream, status.BreakerOpen, status.NotReady, status.Amnesia,
		status.TransportDown, status.NoBootstrap, status.Timeout, status.HopExceeded,
	}
)

func openEndpoint(id, path string) exchange.Endpoint {
	return exchange.Endpoint{
		ID: id, Name: "open", Methods: exchange.Reading, Path: path, On: exchange.OnPublic, AnyQuery: true, ErrorPages: true,
		Doc: "Redirects to the page of an address. The form of the first page leads here.",
		Params: []exchange.Param{{
			Name: "key", Kind: exchange.TextParam, Doc: "b3:… with or without a path below it",
		}},
		Answers: []exchange.Reply{{
			Code: http.StatusSeeOther, Headers: []string{"Location", "Cache-Control"}, Doc: "the page of that key",
		}},
		Fails: []status.Outcome{status.BadAddress},
		Serve: func(w *exchange.Response, r *http.Request, _ exchange.Input) error { return openKey(w, r) },
	}
}
