package markdown

import (
	"regexp"

	"github.com/microcosm-cc/bluemonday"
)

// relativeURL matches URLs without scheme and host that do not begin at the root of the gateway.
var relativeURL = regexp.MustCompile(`^[^/\\:?#][^\\:]*$`)

// newPolicy returns what HTML may have: text, links and images. Everything else is removed, and the content of
// scripts and styles with it.
func newPolicy() *bluemonday.Policy {
	p := bluemonday.NewPolicy()
	p.AllowElements("h1", "h2", "h3", "h4", "h5", "h6", "p", "br", "hr", "blockquote", "ul", "ol", "li", "dl", "dt",
		"dd", "pre", "code", "em", "strong", "b", "i", "u", "s", "del", "ins", "sub", "sup",
		"kbd", "samp", "var", "mark",
		"small", "q", "cite", "abbr", "details", "summary", "table", "thead", "tbody", "tfoot", "tr", "th", "td", "div",
		"figure", "figcaption")
	p.AllowAttrs("id").Matching(regexp.MustCompile(`^md-[\p{L}\p{N}_-]*$`)).OnElements("h1",
		"h2", "h3", "h4", "h5", "h6")
	p.AllowAttrs("align").Matching(regexp.MustCompile(`^(left|right|center)$`)).
		OnElements("p", "div", "h1", "h2", "h3", "th", "td")
	p.AllowAttrs("colspan", "rowspan").Matching(bluemonday.Integer).OnElements("th", "td")
	p.AllowAttrs("start").Matching(bluemonday.Integer).OnElements("ol")
	p.AllowAttrs("open").Matching(regexp.MustCompile(`^(open)?$`)).OnElements("details")

	p.AllowAttrs("href").OnElements("a")
	p.AllowAttrs("title").OnElements("a", "img", "abbr")
	p.AllowRelativeURLs(true)
	p.AllowURLSchemes("http", "https", "mailto")
	p.RequireParseableURLs(true)
	p.RequireNoReferrerOnLinks(true)
	p.RequireNoFollowOnLinks(true)

	p.AllowAttrs("src").Matching(relativeURL).OnElements("img")
	p.AllowAttrs("alt").OnElements("img")
	p.AllowAttrs("width", "height").Matching(bluemonday.Number).OnElements("img")
	return p
}
