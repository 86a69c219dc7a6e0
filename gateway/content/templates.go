package content

import (
	_ "embed"
	"html/template"

	"allium/gateway/exchange"
	"allium/protocols/b3"
)

//go:embed pages.html
var pagesSource string

// pageTemplates are the templates of the pages here, with those that all pages share.
var pageTemplates = template.Must(template.Must(exchange.PageTemplates.Clone()).Parse(pagesSource))

// pageVersion changes when the templates or the style change. ETags of pages depend on it.
var pageVersion = exchange.PageVersion + b3.Sum([]byte(pagesSource)).Hex()[:8]
