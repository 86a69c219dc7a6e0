package pages

import (
	"html/template"
	"iter"

	"allium/gateway/content/kind"
	"allium/gateway/exchange"
)

// Table is the Show of a page whose file has values in rows.
const Table = "table"

// File is the page of one file. Its fields are the templates' data.
type File struct {
	Top
	Facts
	Directory bool
	URL       string // of the file itself
	Notice    string // what the page does not show, and why; empty: nothing

	Show  string                  // what the template shows: the name of a kind, Table, or empty for no preview
	Body  template.HTML           // Markdown, or the rows of a table
	Lines iter.Seq[template.HTML] // the lines of a text, in pieces

	Previous, Next *Neighbour // pictures of the same directory; nil: none
}

// Facts describe the file of a page.
type Facts struct {
	Kind, Icon string
	Size       string // in words
	Exact      string // in bytes
	Executable bool
}

// Neighbour is a picture beside the one of a page.
type Neighbour struct{ Name, URL string }

// NewNeighbour returns the neighbour with that file name.
func NewNeighbour(name string) *Neighbour {
	return &Neighbour{exchange.EscapeName(name), exchange.PercentEncode(name) + FilePage(kind.Image)}
}

// policies are the Content-Security-Policies of pages by what they show. Each allows only what that needs: no page
// runs scripts, and none loads anything from elsewhere.
var policies = map[string]string{
	kind.Image.Name:    exchange.PagePolicy,
	kind.Video.Name:    exchange.PagePolicy + "; media-src 'self'",
	kind.Audio.Name:    exchange.PagePolicy + "; media-src 'self'",
	kind.PDF.Name:      exchange.PagePolicy + "; object-src 'self'; frame-src 'self'",
	kind.Markdown.Name: exchange.PagePolicy,
	kind.Text.Name:     exchange.PagePolicy,
	Table:              exchange.PagePolicy,
	"":                 exchange.PagePolicy,
}

// Policy returns the Content-Security-Policy of a page that shows what Show names, and whether there are such pages.
func Policy(show string) (policy string, ok bool) {
	policy, ok = policies[show]
	return policy, ok
}
