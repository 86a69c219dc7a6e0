package exchange

import (
	"crypto/sha256"
	_ "embed" // the pages and their style
	"encoding/base64"
	"html/template"
	"sync"

	"allium/protocols/b3"
)

//go:embed pages.html
var pagesSource string

//go:embed pages.css
var styleSource string

// PageTemplates returns the templates that all HTML pages share, and those of the pages for uploads and problems. They
// are parsed for the first page: most commands show none.
var PageTemplates = sync.OnceValue(NewPageTemplates)

// NewPageTemplates returns these templates for a package that adds its own to them. Templates that have written a page
// can neither be changed nor cloned.
func NewPageTemplates() *template.Template {
	return template.Must(template.New("pages").Parse(pagesSource))
}

// PageStyle is the style sheet of all pages. PagePolicy names its hash, so browsers apply no
// other style, whatever a file name contains.
var PageStyle = template.CSS(styleSource)

// Frame holds the data that the templates need for the beginning of every page.
type Frame struct {
	Style  template.CSS
	Prefix string // Response.Prefix
	NoIcon bool   // the host has no icon of the gateway
	Base   string // Prefix, unless the page lies below a path of the gateway that it does not name elsewhere
}

// Frame returns the frame of a page that answers with w.
func (w *Response) Frame() Frame {
	return Frame{Style: PageStyle, Prefix: w.Prefix, NoIcon: w.Pages == SitePages, Base: w.Prefix}
}

// PagePolicy is the Content-Security-Policy of all pages.
var PagePolicy = func() string {
	sum := sha256.Sum256([]byte(styleSource))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
}()

// PageVersion changes when the templates or the style change. ETags of pages contain it.
var PageVersion = b3.Sum([]byte(pagesSource + styleSource)).Hex()[:8]
