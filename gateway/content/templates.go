package content

import (
	_ "embed"
	"html/template"
	"sync"

	"allium/gateway/exchange"
	"allium/protocols/b3"
	"allium/protocols/manifest"
)

//go:embed pages.html
var pagesSource string

// pageTemplates returns the templates of the pages here, with those that all pages share.
var pageTemplates = sync.OnceValue(func() *template.Template {
	return template.Must(exchange.NewPageTemplates().Parse(pagesSource))
})

// pageVersion changes when the templates, the style or the form of a listing's entries change. ETags of pages depend
// on it.
var pageVersion = exchange.PageVersion + b3.Sum([]byte(pagesSource + exampleEntries())).Hex()[:8]

// exampleEntries returns what a listing and a gallery write for an entry that has all parts.
func exampleEntries() string {
	e := manifest.Entry{Kind: manifest.File, Name: "a.png", Executable: true, Size: 1, Root: b3.Sum(nil)}
	var l htmlListing
	l.Address = e.Root.String()
	l.row(&e, show(&e))
	l.tile(&e, show(&e))
	return string(l.line)
}
