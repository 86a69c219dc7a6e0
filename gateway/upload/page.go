package upload

import (
	"bytes"
	"fmt"
	"net/http"

	"allium/gateway/exchange"
	"allium/protocols/status"
)

// page serves the form with which a browser uploads a directory. It needs no script.
func (g *Handlers) page(w *exchange.Response, r *http.Request, _ exchange.Input) error {
	if err := g.takesUploads(); err != nil {
		return err
	}
	var out bytes.Buffer
	if err := exchange.PageTemplates().ExecuteTemplate(&out, "upload", w.Frame()); err != nil {
		return fmt.Errorf("render the page of uploads: %w", err)
	}
	h := w.Header()
	h.Set("Content-Security-Policy", exchange.PagePolicy)
	h.Set("Cache-Control", "no-store")
	return w.Send(r, http.StatusOK, exchange.MediaHTML, out.Bytes())
}

// pageEndpoint is the route of GET /upload.
func pageEndpoint(serve exchange.Handler) exchange.Endpoint {
	return exchange.Endpoint{
		ID: "uploadPage", Name: "upload_page", Methods: exchange.Reading, Path: "/upload",
		On: exchange.OnPublic, AnyQuery: true, ErrorPages: true,
		Doc: "Returns a page with a form that uploads a directory (POST /b3).",
		Answers: []exchange.Reply{{
			Code: http.StatusOK, Payload: exchange.Payload{Media: exchange.MediaHTML},
			Headers: []string{"Cache-Control", "Content-Security-Policy"}, Doc: "the page",
		}},
		Fails: []status.Outcome{status.Unsupported},
		Serve: serve,
	}
}
