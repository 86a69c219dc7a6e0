package gateway

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // the pages, their style and their icon
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
	"strings"

	"allium/gateway/client"
	"allium/protocols/b3"
)

//go:embed pages.html
var pagesSource string

//go:embed pages.css
var styleSource string

//go:embed icon.svg
var iconSource []byte

// pageTemplates are the templates of everything this program writes as HTML.
var pageTemplates = template.Must(template.New("pages").Parse(pagesSource))

// pageStyle is the one style of all pages; the policy names its hash, so no
// other style applies, whatever a name in a directory may hold.
var pageStyle = template.CSS(styleSource)

var pagePolicy = func() string {
	sum := sha256.Sum256([]byte(styleSource))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
}()

// pageVersion changes with the pages, for their validators.
var pageVersion = b3.Sum([]byte(pagesSource + styleSource)).Hex()[:8]

// landing is the first page: what this is, whether it is ready, and a field to
// open an address with.
func (g *Gateway) landing(w *response, r *http.Request) error {
	page, _ := g.readiness()
	var waiting []client.Gate
	for _, gate := range page.Gates {
		if !gate.Ready {
			waiting = append(waiting, gate)
		}
	}
	var out bytes.Buffer
	err := pageTemplates.ExecuteTemplate(&out, "landing", struct {
		Style   template.CSS
		Ready   bool
		Waiting []client.Gate
		Version string
	}{pageStyle, page.Ready, waiting, g.deps.Version.Version})
	if err != nil {
		return fmt.Errorf("gateway: landing page: %w", err)
	}
	h := w.Header()
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("Cache-Control", "no-store")
	return w.send(r, http.StatusOK, "text/html; charset=utf-8", out.Bytes())
}

// openKey answers the landing page's field, /b3?key=b3:…[/path]: it redirects to
// the page of that key.
func openKey(w *response, r *http.Request) error {
	key := strings.TrimSpace(r.URL.Query().Get("key"))
	key = strings.TrimPrefix(key, "/b3/")
	r.URL.RawQuery = ""
	address, rest, _ := strings.Cut(key, "/")
	root, err := b3.Parse(strings.ToLower(address))
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
		return err // a browser would make something else of ".."
	}
	h := w.Header()
	h.Set("Location", to)
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", "0") // of HEAD too
	w.WriteHeader(http.StatusSeeOther)
	return nil
}

// favicon is the icon that browsers ask for.
func favicon(w *response, r *http.Request) error {
	h := w.Header()
	h.Set("Cache-Control", "public, max-age=86400")
	h.Set("Content-Security-Policy", "default-src 'none'")
	return w.send(r, http.StatusOK, "image/svg+xml", iconSource)
}
