// Package markdown turns Markdown of strangers into HTML that a page can carry. It has no I/O.
//
// Invariants:
//
//   - The HTML has no script, style, form, frame, handler or class. It loads nothing but images, and only by a
//     relative URL, so from the same directory tree.
//   - The work is bounded: at most [MaxSource] bytes, and a budget for the constructs that a parser needs quadratic
//     time for. A text beyond it is refused with [ErrTooComplex]; the caller shows it as plain text.
//
// One text, walked through: [Render] counts how deep its lines nest and parses it with goldmark. The parsers of
// budget.go run before goldmark's own and end the work when the budget is spent. links.go changes links so that they
// lead to pages. The HTML that goldmark writes goes through bluemonday, which keeps what policy.go lists.
package markdown

import (
	"bytes"
	"errors"
	"fmt"
	"html/template"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/util"

	"github.com/microcosm-cc/bluemonday"
)

// MaxSource is the longest text that Render accepts, in bytes.
const MaxSource = 128 << 10

// MemoryPerByte is the maximum number of bytes that Render allocates for a byte of a text:
// for a text of empty headings.
const MemoryPerByte = 700

// ErrTooComplex reports that a text is too long, or nests too deep, or has more links, emphasis or table cells than
// the budget allows.
var ErrTooComplex = errors.New("the Markdown is too long or too complex to render")

// Renderer renders Markdown. It is safe for concurrent use.
type Renderer struct {
	policy *bluemonday.Policy
	page   func(name string) string
}

// New returns a Renderer. page returns the query that is added to a relative link whose path ends with name, such as
// "?view=preview", or "" for none.
func New(page func(name string) string) *Renderer {
	return &Renderer{policy: newPolicy(), page: page}
}

// Render returns src as sanitized HTML. The error is [ErrTooComplex], or that of a bug.
func (r *Renderer) Render(src []byte) (safe template.HTML, err error) {
	if len(src) > MaxSource || tooDeep(src) {
		return "", ErrTooComplex
	}
	defer func() {
		if p := recover(); p != nil {
			if p != spent {
				panic(p)
			}
			safe, err = "", ErrTooComplex
		}
	}()
	b := &budget{left: workBudget}
	md := goldmark.New(
		goldmark.WithExtensions(extension.Table, extension.Strikethrough, extension.Linkify),
		goldmark.WithParserOptions(
			parser.WithAutoHeadingID(),
			parser.WithInlineParsers(
				util.Prioritized(inlineBudget{b}, 0), util.Prioritized(extension.NewTaskCheckBoxParser(), 1)),
			parser.WithParagraphTransformers(util.Prioritized(paragraphBudget{b}, 0)),
			parser.WithASTTransformers(util.Prioritized(linkTransformer{r.page}, 1000)),
		),
		goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(checkBoxes{}, 0))),
		goldmark.WithRendererOptions(html.WithUnsafe()), // the sanitizer's policy removes unsafe HTML
	)
	var out bytes.Buffer
	if err := md.Convert(src, &out, parser.WithContext(parser.NewContext(parser.WithIDs(newIDs())))); err != nil {
		return "", fmt.Errorf("render Markdown: %w", err)
	}
	return template.HTML(r.policy.SanitizeReader(&out).String()), nil
}
