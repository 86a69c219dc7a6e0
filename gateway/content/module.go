package content

import (
	_ "embed"
	"net/http"

	"allium/gateway/exchange"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// verifyModule is the JavaScript module that checks verified encodings in a browser
// (docs/http.md).
//
//go:embed verify.mjs
var verifyModule []byte

var verifyModuleTag = `"` + b3.Sum(verifyModule).Hex()[:32] + `"`

func moduleEndpoint() exchange.Endpoint {
	return exchange.Endpoint{
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
	}
}

var moduleHeaders = []string{"ETag", "Cache-Control", "Cross-Origin-Resource-Policy"}

// module serves /verify.mjs. The module changes with the program, so caches revalidate it
// once a day.
func module(w *exchange.Response, r *http.Request) error {
	h := w.Header()
	h.Set("Cache-Control", "public, max-age=86400")
	h.Set("Cross-Origin-Resource-Policy", "cross-origin")
	return exchange.SendTagged(w, r, verifyModuleTag, "text/javascript; charset=utf-8", verifyModule)
}
