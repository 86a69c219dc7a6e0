package exchange

import (
	"crypto/sha256"
	_ "embed" // the pages and their style
	"encoding/base64"
	"html/template"

	"allium/protocols/b3"
)

//go:embed pages.html
var pagesSource string

//go:embed pages.css
var styleSource string

// PageTemplates are the templates of everything this program writes as HTML.
var PageTemplates = template.Must(template.New("pages").Parse(pagesSource))

// PageStyle is the one style of all pages; the policy names its hash, so no
// other style applies, whatever a name in a directory may hold.
var PageStyle = template.CSS(styleSource)

// PagePolicy is the Content-Security-Policy of all pages.
var PagePolicy = func() string {
	sum := sha256.Sum256([]byte(styleSource))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
}()

// PageVersion changes with the pages, for their validators.
var PageVersion = b3.Sum([]byte(pagesSource + styleSource)).Hex()[:8]
