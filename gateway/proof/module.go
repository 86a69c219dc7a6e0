package proof

import (
	"net/http"
	"sync"

	"allium/gateway/asset"
	"allium/gateway/exchange"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// module is the JavaScript module that checks verified encodings in a browser (docs/http.md), and its ETag.
var module = sync.OnceValues(func() (body []byte, etag string) {
	body, err := asset.New(assetFiles, "verify.mjs", asset.Script, asset.NoPolicy).Plain()
	if err != nil {
		panic(err) // New has read it
	}
	return body, `"` + b3.Sum(body).Hex()[:32] + `"`
})

func moduleEndpoint() exchange.Endpoint {
	return exchange.Endpoint{
		ID: "verifyModule", Name: "module", Methods: exchange.Reading, Path: "/verify.mjs",
		On: exchange.OnPublic, AnyQuery: true,
		Doc:     "Returns a JavaScript module that checks verified encodings in a browser (docs/http.md).",
		Headers: []string{"If-Match", "If-None-Match"},
		Answers: []exchange.Reply{
			{
				Code: http.StatusOK, Payload: exchange.Payload{Media: asset.Script},
				Headers: moduleHeaders, Doc: "the module",
			},
			{Code: http.StatusNotModified, Headers: moduleHeaders, Doc: "the client's copy is current"},
		},
		Fails: []status.Outcome{status.Precondition},
		Serve: func(w *exchange.Response, r *http.Request, _ exchange.Input) error { return serveModule(w, r) },
	}
}

var moduleHeaders = []string{"ETag", "Cache-Control", "Cross-Origin-Resource-Policy"}

// serveModule serves /verify.mjs. The module changes with the program, so caches revalidate it
// once a day.
func serveModule(w *exchange.Response, r *http.Request) error {
	h := w.Header()
	h.Set("Cache-Control", "public, max-age=86400")
	h.Set("Cross-Origin-Resource-Policy", "cross-origin")
	body, etag := module()
	return exchange.SendTagged(w, r, etag, asset.Script, body)
}
