package console

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"sync"

	"allium/gateway/asset"
	"allium/gateway/exchange"
	"allium/protocols/b3"
)

// Path is the path of the console, with a slash at its end.
const Path = "/console/"

//go:embed page.html
var pageSource string

//go:embed page.css
var pageStyle string

//go:embed assets/*.gz
var assetFiles embed.FS

// assetSet holds the files that the page loads.
type assetSet struct{ script, licence *asset.Asset }

// assets returns the assets. They are read for the first page: most commands show none.
var assets = sync.OnceValue(func() assetSet {
	return assetSet{
		script:  asset.New(assetFiles, "console.js", asset.Script, asset.NoPolicy),
		licence: asset.New(assetFiles, "preact-licence.txt", asset.Text, asset.NoPolicy),
	}
})

// Policy returns the Content-Security-Policy of the page. The page runs its one script, which its digest names, and
// requests nothing but its own origin. The script cannot make HTML or scripts of text.
var Policy = sync.OnceValue(func() string {
	return "default-src 'none'; script-src '" + assets().script.Integrity + "'; style-src '" +
		asset.Digest(string(exchange.PageStyle)) + "' '" + asset.Digest(pageStyle) + "'; connect-src 'self'; " +
		"img-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'; " +
		"require-trusted-types-for 'script'; trusted-types 'none'"
})

// page returns the page, which is the same for everybody.
var page = sync.OnceValues(func() ([]byte, error) {
	var out bytes.Buffer
	a := assets()
	err := template.Must(exchange.NewPageTemplates().Parse(pageSource)).ExecuteTemplate(&out, "console", struct {
		exchange.Frame
		PageStyle                  template.CSS
		Script, Integrity, Licence string
	}{
		Frame:     exchange.Frame{Style: exchange.PageStyle},
		PageStyle: template.CSS(pageStyle), //nolint:gosec // the program's own
		Script:    Path + a.script.Name, Integrity: a.script.Integrity, Licence: Path + a.licence.Name,
	})
	if err != nil {
		return nil, fmt.Errorf("render the console: %w", err)
	}
	return out.Bytes(), nil
})

// Endpoints returns the routes of the console.
func Endpoints() []exchange.Endpoint {
	return []exchange.Endpoint{
		{
			ID: "console", Name: "console", Methods: exchange.Reading, Path: Path, On: exchange.OnAdmin, Exempt: true,
			AnyQuery: true, Doc: "Shows the console, a page about how the node does.",
			Headers: []string{"If-Match", "If-None-Match"},
			Answers: []exchange.Reply{
				{
					Code: http.StatusOK, Payload: exchange.Payload{Media: exchange.MediaHTML},
					Headers: pageHeaders, Doc: "the page",
				},
				{Code: http.StatusNotModified, Headers: pageHeaders, Doc: "the client's copy is current"},
			},
			Serve: func(w *exchange.Response, r *http.Request, _ exchange.Input) error { return serve(w, r) },
		},
		asset.Endpoint("consoleAsset", "console_asset", Path, "Returns a file that the console loads.",
			exchange.OnAdmin, func() asset.Set {
				return asset.Set{Of: "the console", All: []*asset.Asset{assets().script, assets().licence}}
			}),
		{
			ID: "consoleSlash", Name: "console", Methods: exchange.Reading, Path: "/console", On: exchange.OnAdmin,
			Exempt: true, AnyQuery: true, Doc: "Redirects to the console.",
			Answers: []exchange.Reply{{
				Code: http.StatusSeeOther, Headers: []string{"Location", "Cache-Control"}, Doc: "the console",
			}},
			Serve: func(w *exchange.Response, r *http.Request, _ exchange.Input) error { return Redirect(w, r) },
		},
	}
}

var pageHeaders = []string{"ETag", "Cache-Control", "Content-Security-Policy"}

// Redirect sends a visitor to the console.
func Redirect(w *exchange.Response, r *http.Request) error {
	r.URL.RawQuery = ""
	w.Caching = "no-store"
	return w.Redirect(r, http.StatusSeeOther, Path)
}

// serve sends the page.
func serve(w *exchange.Response, r *http.Request) error {
	body, err := page()
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Security-Policy", Policy())
	h.Set("Cache-Control", "no-cache")
	return exchange.SendTagged(w, r, exchange.ETag(b3.Sum(body)), exchange.MediaHTML, body)
}
