package content

import (
	"net/http"
	"slices"

	"allium/gateway/api"
	"allium/gateway/exchange"
	"allium/protocols/bao"
	"allium/protocols/status"
)

// Endpoints are the pages of the public listener.
func (g *Handlers) Endpoints() []exchange.Endpoint {
	return []exchange.Endpoint{
		{
			ID: "landing", Name: "landing", Methods: exchange.Reading, Path: "/", On: exchange.OnPublic, Loose: true, Page: true,
			Doc:     "The first page: what this is, whether it is ready, and a field to open an address with.",
			Answers: []exchange.Reply{{Code: http.StatusOK, Payload: exchange.Payload{Media: exchange.MediaHTML}, Headers: []string{"Cache-Control", "Content-Security-Policy"}, Doc: "the page"}},
			Serve:   func(w *exchange.Response, r *http.Request, _ exchange.Input) error { return g.landing(w, r) },
		},
		{
			ID: "favicon", Name: "favicon", Methods: exchange.Reading, Path: "/favicon.ico", On: exchange.OnPublic, Loose: true,
			Doc:     "The icon that browsers ask for.",
			Answers: []exchange.Reply{{Code: http.StatusOK, Payload: exchange.Payload{Media: "image/svg+xml"}, Headers: []string{"Cache-Control", "Content-Security-Policy"}, Doc: "the icon"}},
			Serve:   func(w *exchange.Response, r *http.Request, _ exchange.Input) error { return favicon(w, r) },
		},
		{
			ID: "verifyModule", Name: "module", Methods: exchange.Reading, Path: "/verify.mjs", On: exchange.OnPublic, Loose: true,
			Doc:     "A JavaScript module that checks verified encodings in a browser (docs/http.md).",
			Headers: []string{"If-Match", "If-None-Match"},
			Answers: []exchange.Reply{
				{Code: http.StatusOK, Payload: exchange.Payload{Media: "text/javascript; charset=utf-8"}, Headers: []string{"ETag", "Cache-Control", "Cross-Origin-Resource-Policy"}, Doc: "the module"},
				{Code: http.StatusNotModified, Headers: []string{"ETag", "Cache-Control", "Cross-Origin-Resource-Policy"}, Doc: "the client has it"},
			},
			Fails: []status.Outcome{status.Precondition},
			Serve: func(w *exchange.Response, r *http.Request, _ exchange.Input) error { return module(w, r) },
		},
		openEndpoint("open", "/b3"), openEndpoint("openSlash", "/b3/"),
		{
			ID: "getObject", Name: "object", Methods: exchange.Reading, Path: "/o/{b3}", On: exchange.OnPublic, Loose: true,
			Doc:  "The bytes of an object, each chunk group proved before it leaves.",
			More: "One range at a time, unless the operator lets more be asked for (`gateway.multi_range`). An address in uppercase digits is redirected. What is not here is looked for and fetched from peers, unless Cache-Control has only-if-cached. With format=bao, or an Accept that names " + bao.MediaType + ", the answer is the verified encoding (docs/http.md).",
			Params: []exchange.Param{
				{Name: "format", Of: []string{"bao"}, Doc: "the verified encoding: the size, 8 bytes little-endian, and the tree's parents and chunk groups in pre-order"},
				{Name: "range", Kind: exchange.TextParam, Doc: "with format=bao: of that range of the object's bytes, first-last, first- or -count"},
			},
			Headers: append([]string{"Accept"}, contentHeaders...),
			Answers: slices.Concat(contentAnswers, baoAnswers, []exchange.Reply{{Code: http.StatusPermanentRedirect, Headers: []string{"Location", "Cache-Control"}, Doc: "the address in lowercase digits"}}),
			Fails:   contentFails,
			Serve:   func(w *exchange.Response, r *http.Request, in exchange.Input) error { return g.object(w, r, in.Rest) },
		},
		{
			ID: "browse", Name: "browse", Methods: exchange.Reading, Path: "/b3/{path}", On: exchange.OnPublic, Loose: true, Page: true,
			Doc:     "A file, or a directory by its index.html or a listing: {path} is an address and a path below it.",
			More:    "A directory without the slash at its end is redirected, and so is a symbolic link to what it names inside the tree. `Accept: application/json` without text/html asks for a listing as JSON.",
			Params:  []exchange.Param{{Name: "format", Of: []string{"html", "json"}, Doc: "a listing in that form, also where there is an index.html"}},
			Headers: contentHeaders,
			Answers: slices.Concat(contentAnswers, []exchange.Reply{
				{Code: http.StatusOK, Payload: exchange.JSONBody[api.Listing](), Headers: []string{"ETag", "Vary", "Content-Encoding"}, Doc: "a listing; its ETag is weak"},
				{Code: http.StatusOK, Payload: exchange.Payload{Media: exchange.MediaHTML}, Headers: []string{"ETag", "Vary", "Content-Encoding"}, Doc: "a listing; its ETag is weak"},
				{Code: http.StatusMovedPermanently, Headers: []string{"Location", "Cache-Control"}, Doc: "where the directory's slash or the link leads"},
				{Code: http.StatusPermanentRedirect, Headers: []string{"Location", "Cache-Control"}, Doc: "the address in lowercase digits"},
			}),
			Fails: contentFails,
			Serve: func(w *exchange.Response, r *http.Request, in exchange.Input) error { return g.browse(w, r, in.Rest) },
		},
	}
}

// What every endpoint that serves an object's bytes has in common.
var (
	contentHeaders = []string{"Range", "If-Match", "If-None-Match", "If-Range", "Cache-Control", "Request-Timeout"}
	contentAnswers = []exchange.Reply{
		{Code: http.StatusOK, Payload: exchange.Payload{Media: exchange.MediaAny}, Headers: objectHeaders, Doc: "the whole"},
		{Code: http.StatusPartialContent, Payload: exchange.Payload{Media: exchange.MediaAny}, Headers: append([]string{"Content-Range"}, objectHeaders...), Doc: "the range"},
		{Code: http.StatusPartialContent, Payload: exchange.Payload{Media: mediaParts}, Headers: objectHeaders, Doc: "the ranges, each a part with its own Content-Range, where several are served"},
		{Code: http.StatusNotModified, Headers: []string{"ETag", "Cache-Control", "Vary", "Link", "Accept-Ranges", "Content-Location"}, Doc: "the client has it"},
	}
	baoAnswers = []exchange.Reply{
		{Code: http.StatusOK, Payload: exchange.Payload{Media: bao.MediaType}, Headers: []string{"ETag", "Cache-Control", "Vary", "Accept-Ranges", "Content-Location"}, Doc: "the verified encoding, of a range where the query asks for one"},
		{Code: http.StatusPartialContent, Payload: exchange.Payload{Media: bao.MediaType}, Headers: []string{"Content-Range", "ETag", "Cache-Control", "Vary", "Accept-Ranges", "Content-Location"}, Doc: "the verified encoding of the range in the header Range, which counts the object's bytes"},
	}
	objectHeaders = []string{"Link", "ETag", "Cache-Control", "Vary", "Accept-Ranges", "Content-Security-Policy", "Cross-Origin-Resource-Policy", "Content-Disposition"}
	contentFails  = []status.Outcome{
		status.BadAddress, status.NotAllowed, status.NotFound, status.Gone, status.Precondition, status.BadRange, status.Denied,
		status.Corrupt, status.Upstream, status.BreakerOpen, status.NotReady, status.Amnesia, status.TransportDown, status.NoBootstrap,
		status.Timeout, status.HopExceeded,
	}
)

func openEndpoint(id, path string) exchange.Endpoint {
	return exchange.Endpoint{
		ID: id, Name: "open", Methods: exchange.Reading, Path: path, On: exchange.OnPublic, Loose: true, Page: true,
		Doc:     "Where the landing page's field leads: redirects to the page of an address.",
		Params:  []exchange.Param{{Name: "key", Kind: exchange.TextParam, Doc: "b3:… with or without a path below it"}},
		Answers: []exchange.Reply{{Code: http.StatusSeeOther, Headers: []string{"Location", "Cache-Control"}, Doc: "the page of that key"}},
		Fails:   []status.Outcome{status.BadAddress},
		Serve:   func(w *exchange.Response, r *http.Request, _ exchange.Input) error { return openKey(w, r) },
	}
}
