package markdown

import (
	"net/url"
	"path"
	"strconv"
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// idPrefix begins the ID of each heading, so that none is an ID of the page.
const idPrefix = "md-"

// linkTransformer makes links lead to headings by their prefixed IDs, and to the pages of files.
type linkTransformer struct{ page func(name string) string }

// Transform implements parser.ASTTransformer.
func (t linkTransformer) Transform(doc *ast.Document, _ text.Reader, _ parser.Context) {
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if link, ok := n.(*ast.Link); ok && entering {
			link.Destination = []byte(t.destination(string(link.Destination)))
		}
		return ast.WalkContinue, nil
	}) // the walk itself returns no error
}

func (t linkTransformer) destination(to string) string {
	u, err := url.Parse(to)
	if err != nil || u.IsAbs() || u.Host != "" {
		return to
	}
	if u.Fragment != "" {
		u.Fragment = idPrefix + u.Fragment
	}
	if name := path.Base(u.Path); u.RawQuery == "" && u.Path != "" && !strings.HasSuffix(u.Path, "/") {
		u.RawQuery = strings.TrimPrefix(t.page(name), "?")
	}
	return u.String()
}

// ids gives each heading an ID that is its text, prefixed, and numbered if it occurs again.
type ids struct{ seen map[string]int }

func newIDs() *ids { return &ids{map[string]int{}} }

// Generate implements parser.IDs.
func (s *ids) Generate(value []byte, _ ast.NodeKind) []byte {
	var b strings.Builder
	for _, r := range strings.ToLower(strings.TrimSpace(string(value))) {
		switch {
		case r == ' ' || r == '-':
			b.WriteByte('-')
		case r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r > 0x7f && util.IsEastAsianWideRune(r):
			b.WriteRune(r)
		}
	}
	id := idPrefix + b.String()
	n := s.seen[id]
	s.seen[id]++
	if n > 0 {
		id += "-" + strconv.Itoa(n)
	}
	return []byte(id)
}

// Put implements parser.IDs.
func (s *ids) Put(value []byte) { s.seen[string(value)]++ }
