package content

import (
	"bytes"
	_ "embed" // the pages, their style and their icon
	"fmt"
	"net/http"
	"strings"

	"allium/gateway/api"
	"allium/gateway/exchange"
	"allium/protocols/address"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/protocols/ticket"
)

//go:embed icon.svg
var iconSource []byte

func (g *Handlers) landingEndpoint() exchange.Endpoint {
	return exchange.Endpoint{
		ID: "landing", Name: "landing", Methods: exchange.Reading, Path: "/",
		On: exchange.OnPublic, AnyQuery: true, ErrorPages: true,
		Doc: "Shows the first page: what the gateway is, whether the node is ready, and a field for an address.",
		Answers: []exchange.Reply{{
			Code: http.StatusOK, Payload: exchange.Payload{Media: exchange.MediaHTML},
			Headers: []string{"Cache-Control", "Content-Security-Policy"}, Doc: "the page",
		}},
		Serve: func(w *exchange.Response, r *http.Request, _ exchange.Input) error { return g.landing(w, r) },
	}
}

// landing serves the first page: what the gateway is, whether the node is ready, and a field
// for an address.
func (g *Handlers) landing(w *exchange.Response, r *http.Request) error {
	page := g.ready()
	var waiting []api.Gate
	for _, gate := range page.Gates {
		if !gate.Ready {
			waiting = append(waiting, gate)
		}
	}
	var out bytes.Buffer
	example := ""
	if !g.example.IsZero() {
		example = target{root: g.example}.url(true)
	}
	err := pageTemplates.ExecuteTemplate(&out, "landing", struct {
		exchange.Frame
		Ready   bool
		Waiting []api.Gate
		Version string
		Example string
	}{w.Frame(), page.Ready, waiting, g.version, example})
	if err != nil {
		return fmt.Errorf("render the first page: %w", err)
	}
	h := w.Header()
	h.Set("Content-Security-Policy", exchange.PagePolicy)
	h.Set("Cache-Control", "no-store")
	return w.Send(r, http.StatusOK, "text/html; charset=utf-8", out.Bytes())
}

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

// openKey serves /b3?key=b3:…[/path] or with a ticket, the form of the first page. It redirects to the page of
// that key, which may be written in any way that address.Canonical understands.
func openKey(w *exchange.Response, r *http.Request) error {
	key, err := address.Canonical(strings.TrimSpace(r.URL.Query().Get("key")))
	if err != nil {
		return err
	}
	r.URL.RawQuery = ""
	first, rest, _ := strings.Cut(key, "/")
	root, err := rootOf(first)
	if err != nil {
		return err
	}
	t := target{root: root}
	for name := range strings.SplitSeq(strings.Trim(rest, "/"), "/") {
		if name != "" {
			t.names = append(t.names, name)
		}
	}
	to := t.url(strings.HasSuffix(rest, "/"))
	if _, err := parseTarget(strings.TrimPrefix(to, "/b3/")); err != nil {
		return err // browsers resolve ".." themselves and would go elsewhere
	}
	h := w.Header()
	h.Set("Location", w.Prefix+to)
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", "0") // for HEAD too
	w.WriteHeader(http.StatusSeeOther)
	return nil
}

// rootOf parses an address in any case, or takes it from a ticket. Nothing else in a ticket counts here: a
// visitor does not make the gateway dial.
func rootOf(text string) (b3.Root, error) {
	if ticket.Is(text) {
		t, err := ticket.Parse(text)
		return t.Root, err
	}
	return b3.Parse(strings.ToLower(text))
}

func faviconEndpoint() exchange.Endpoint {
	return exchange.Endpoint{
		ID: "favicon", Name: "favicon", Methods: exchange.Reading, Path: "/favicon.ico",
		On: exchange.OnPublic, AnyQuery: true,
		Doc: "Returns the icon that browsers request.",
		Answers: []exchange.Reply{{
			Code: http.StatusOK, Payload: exchange.Payload{Media: "image/svg+xml"},
			Headers: []string{"Cache-Control", "Content-Security-Policy"}, Doc: "the icon",
		}},
		Serve: func(w *exchange.Response, r *http.Request, _ exchange.Input) error { return favicon(w, r) },
	}
}

// favicon serves the icon that browsers request.
func favicon(w *exchange.Response, r *http.Request) error {
	h := w.Header()
	h.Set("Cache-Control", "public, max-age=86400")
	h.Set("Content-Security-Policy", "default-src 'none'")
	return w.Send(r, http.StatusOK, "image/svg+xml", iconSource)
}
