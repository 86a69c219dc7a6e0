// Package pages writes the pages of directories and files as HTML, and the listing of a directory as JSON. It has no
// I/O and knows nothing of requests but their queries.
//
// Invariants:
//
//   - No page has a script, and none loads anything from elsewhere.
//   - A name, a link target or a text never becomes markup, and what in it misleads is shown as a number.
//   - Each entry of a list has its own line, whose first link is the entry. Programs that read listings as they read
//     those of a web server find the entries and nothing else.
package pages

import (
	_ "embed"
	"html/template"
	"io"
	"sync"

	"allium/gateway/exchange"
	"allium/protocols/b3"
	"allium/protocols/manifest"
)

//go:embed pages.html
var source string

// templates returns the templates of the pages here, with those that all pages share.
var templates = sync.OnceValue(func() *template.Template {
	return template.Must(exchange.NewPageTemplates().Parse(source))
})

// Execute writes the page "landing" or "file" with its data to w.
func Execute(w io.Writer, page string, data any) error {
	return templates().ExecuteTemplate(w, page, data)
}

// Version changes when the templates, the style or the form of a listing's entries change. ETags of pages depend on it.
var Version = exchange.PageVersion + b3.Sum([]byte(source + exampleEntries())).Hex()[:8]

// exampleEntries returns what a listing and a gallery write for an entry that has all parts.
func exampleEntries() string {
	e := manifest.Entry{Kind: manifest.File, Name: "a.png", Executable: true, Size: 1, Root: b3.Sum(nil)}
	var l Listing
	l.Address = e.Root.String()
	l.row(&e, show(&e))
	l.tile(&e, show(&e))
	return string(l.line)
}
