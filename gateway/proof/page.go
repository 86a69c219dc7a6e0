package proof

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"allium/gateway/asset"
	"allium/gateway/exchange"
	"allium/internal/lazyregexp"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// The paths of the pages, and of the files that they load.
const (
	pagePath   = "/verify/"
	assetsPath = pagePath + "assets/"
)

//go:embed page.html
var pageSource string

//go:embed page.css
var pageStyle string

//go:embed assets/*.gz
var assetFiles embed.FS

// assetSet holds the files that a page loads.
type assetSet struct{ page, worker, save *asset.Asset }

// assets returns the assets. They are read for the first page: most commands show none.
var assets = sync.OnceValue(func() assetSet {
	a := assetSet{
		page:   asset.New(assetFiles, "page.js", asset.Script, asset.NoPolicy),
		worker: asset.New(assetFiles, "worker.js", asset.Script, ""),
		save:   asset.New(assetFiles, "save.js", asset.Script, asset.NoPolicy),
	}
	a.worker.PolicyFor = func(r *http.Request) string {
		others, err := gateways(r.URL.Query())
		if err != nil { // no link of a page has it
			others = nil
		}
		return workerPolicy(others)
	}
	return a
})

// workerPolicy returns the Content-Security-Policy of the worker. It requests the page's own gateway and the others,
// and makes WebAssembly.
func workerPolicy(others []string) string {
	return "default-src 'none'; script-src 'wasm-unsafe-eval'; connect-src " +
		strings.Join(append([]string{"'self'"}, others...), " ")
}

// Policy returns the Content-Security-Policy of the page. The page runs its one script, which its digest names, starts
// the two scripts beside it, and requests nothing itself. The script cannot make HTML or scripts of text.
var Policy = sync.OnceValue(func() string {
	return "default-src 'none'; script-src '" + assets().page.Integrity + "'; style-src '" +
		asset.Digest(string(exchange.PageStyle)) + "' '" + asset.Digest(pageStyle) + "'; worker-src 'self'; " +
		"img-src 'self' blob:; frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; " +
		"require-trusted-types-for 'script'; trusted-types own"
})

// pageTemplate returns the template of the page.
var pageTemplate = sync.OnceValue(func() *template.Template {
	return template.Must(exchange.NewPageTemplates().Parse(pageSource))
})

// page is the data of the template. Its URLs are below Frame.Prefix.
type page struct {
	exchange.Frame
	PageStyle template.CSS
	Load      scripts
	Address   string
	File      string // the name that the link gives the file; may be empty
	Saved     string // the name of the file that is saved
	Own       string // the host of the page
	Command   string // gets the object without a browser
	Gateways  []source
	Others    []string // the gateways that the link names
	More      bool     // the link may name another
}

// scripts are the paths of what a page loads, and the scope of what saves.
type scripts struct{ Page, Integrity, Worker, Save, Scope string }

// source is a gateway that the page asks.
type source struct{ Name, Object string }

// Endpoints returns the routes of the pages and of the module.
func Endpoints() []exchange.Endpoint {
	return []exchange.Endpoint{moduleEndpoint(), pageEndpoint(), assetEndpoint()}
}

func assetEndpoint() exchange.Endpoint {
	return asset.Endpoint("verifyAsset", "verify_asset", assetsPath, "Returns a script of the page that proves.",
		exchange.OnPublic, func() asset.Set {
			a := assets()
			return asset.Set{Of: "the page that proves", All: []*asset.Asset{a.page, a.worker, a.save}}
		})
}

func pageEndpoint() exchange.Endpoint {
	headers := []string{"ETag", "Cache-Control", "Content-Security-Policy"}
	return exchange.Endpoint{
		ID: "verifyPage", Name: "verify_page", Methods: exchange.Reading, Path: pagePath + "{b3}",
		On: exchange.OnPublic, AnyQuery: true, ErrorPages: true,
		Doc: "Shows a page that proves an object in the browser before it saves or shows it (docs/friend.md).",
		Params: []exchange.Param{
			{
				Name: "from",
				Doc: "an origin such as https://gateway.example.org whose gateway is asked too; up to 8, with commas " +
					"or several times",
			},
			{Name: "name", Doc: "the name of the file that is saved"},
		},
		Headers: []string{"If-Match", "If-None-Match"},
		Answers: []exchange.Reply{
			{
				Code: http.StatusOK, Payload: exchange.Payload{Media: exchange.MediaHTML}, Headers: headers,
				Doc: "the page",
			},
			{Code: http.StatusNotModified, Headers: headers, Doc: "the client's copy is current"},
			{
				Code: http.StatusPermanentRedirect, Headers: []string{"Location", "Cache-Control"},
				Doc: "the address in its one form, b3: and 64 lowercase digits",
			},
		},
		Fails: []status.Outcome{status.BadAddress, status.Precondition},
		Serve: func(w *exchange.Response, r *http.Request, in exchange.Input) error { return serve(w, r, in.Rest) },
	}
}

// serve sends the page of an address. It does not look for the object: the page does.
func serve(w *exchange.Response, r *http.Request, rest string) error {
	root, canonical, err := exchange.ParseObject(rest)
	switch {
	case canonical != "":
		return w.Redirect(r, http.StatusPermanentRedirect, pagePath+canonical)
	case err != nil:
		return err
	}
	query := r.URL.Query()
	others, err := gateways(query)
	if err != nil {
		return err
	}
	scheme := "http://"
	if w.From.Secure {
		scheme = "https://"
	}
	body, err := render(w.Frame(), scheme+r.Host, root, fileName(query.Get("name")), others)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Security-Policy", Policy())
	h.Set("Cache-Control", "no-cache")
	return exchange.SendTagged(w, r, exchange.ETag(b3.Sum(body)), exchange.MediaHTML, body)
}

// word is a name that a shell takes as it is.
var word = lazyregexp.New(`\A[\pL\pN][\pL\pN._-]*\z`)

// render returns the page of an object, which is saved under a name. own is the origin of the request.
func render(frame exchange.Frame, own string, root b3.Root, name string, others []string) ([]byte, error) {
	a, object := assets(), "/o/"+root.String()
	_, host, _ := strings.Cut(own, "://")
	query := ""
	if len(others) > 0 {
		query = "?" + url.Values{"from": {strings.Join(others, ",")}}.Encode()
	}
	p := &page{
		Frame: frame, PageStyle: template.CSS(pageStyle), //nolint:gosec // the program's own
		Load: scripts{
			Page: assetsPath + a.page.Name, Integrity: a.page.Integrity, Worker: assetsPath + a.worker.Name + query,
			Save: assetsPath + a.save.Name, Scope: assetsPath + "save/",
		},
		Address: root.String(), File: name, Saved: cmp.Or(name, root.Hex()[:16]), Own: exchange.Clip(host),
		Gateways: []source{{Name: exchange.Clip(host), Object: frame.Prefix + object}},
		Others:   others, More: len(others) < maxGateways,
	}
	p.Command = "allium get " + p.Address
	if isOrigin(own) {
		p.Command += " --gateway " + own + frame.Prefix
	}
	if word().MatchString(p.Saved) {
		p.Command += " -o " + p.Saved
	}
	for _, o := range others {
		_, name, _ := strings.Cut(o, "://")
		p.Gateways = append(p.Gateways, source{Name: name, Object: o + object})
	}
	var out bytes.Buffer
	if err := pageTemplate().ExecuteTemplate(&out, "verify", p); err != nil {
		return nil, fmt.Errorf("render the page that proves %s: %w", root, err)
	}
	return out.Bytes(), nil
}
