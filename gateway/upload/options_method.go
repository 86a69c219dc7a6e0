package upload

import (
	"net/http"
	"strings"

	"allium/gateway/exchange"
)

func optionsUploadsEndpoint() exchange.Endpoint {
	return exchange.Endpoint{
		ID: "optionsUploads", Name: "uploads", Methods: []string{http.MethodOptions}, Path: "/u", On: exchange.OnPublic,
		Doc:     "Lists the methods and the media type of uploads in parts, and the version of tus.",
		Answers: optionsAnswers,
		Serve:   optionsUploads(http.MethodPost),
	}
}

func optionsUploadEndpoint() exchange.Endpoint {
	return exchange.Endpoint{
		ID: "optionsUpload", Name: "upload", Methods: []string{http.MethodOptions}, Path: "/u/{id}",
		On:  exchange.OnPublic,
		Doc: "Lists the methods and the media type of one upload, and the version of tus.", Answers: optionsAnswers,
		Serve: optionsUploads(http.MethodHead, http.MethodPatch, http.MethodDelete),
	}
}

var optionsAnswers = []exchange.Reply{{
	Code:    http.StatusNoContent,
	Headers: []string{"Allow", "Accept-Patch", tusResumable, tusVersion, tusExtension},
	Doc:     "the supported methods and media type, and what the node does of tus",
}}

// optionsUploads returns a handler of OPTIONS for a path with these methods.
func optionsUploads(methods ...string) exchange.Handler {
	return func(w *exchange.Response, _ *http.Request, _ exchange.Input) error {
		h := w.Header()
		h.Set("Allow", strings.Join(append([]string{http.MethodOptions}, methods...), ", "))
		h.Set("Accept-Patch", uploadMedia) // RFC 5789 §3.1
		h.Set(tusResumable, tusOneZero)
		h.Set(tusVersion, tusOneZero)
		h.Set(tusExtension, tusExtensions)
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
}
