// Package rendering turns texts of strangers into HTML for pages, within bounds of memory that all pages share. It has
// no I/O.
package rendering

import (
	"bytes"
	"errors"
	"html/template"
	"net/netip"
	"strings"
	"unicode/utf8"

	"allium/gateway/content/csvtable"
	"allium/gateway/content/kind"
	"allium/gateway/content/markdown"
	"allium/gateway/content/text"
	"allium/internal/limits"
	"allium/protocols/status"
)

// maxRenderBytes bounds the memory for texts that are rendered at once: one of the longest, which takes about 0.2 s of
// a core, or several ordinary ones. A client has at most a third of it, or one text, while others are free.
const maxRenderBytes = 96 << 20

// smallPage is the number of bytes that a page may hold in memory while its client reads it, without a part of
// gateway.page_bytes.
const smallPage = 64 << 10

// maxPageBytes bounds what the pages in gateway.listings hold together beside smallPage each, until their clients
// have them: sorted entries and rendered texts. A client has at most a third of the bytes while others are free.
const maxPageBytes = 24 << 20

// ErrPlain reports that a text is shown as it is written, as it is meant to be.
var ErrPlain = errors.New("a text is shown as it is written")

// Renderer renders texts, and counts the memory of pages. Its methods may be called from any goroutine.
type Renderer struct {
	pages    *limits.FairGate[netip.Prefix] // bytes
	renders  *limits.FairGate[netip.Prefix] // bytes
	markdown *markdown.Renderer
}

// New returns a Renderer. page returns the query that is added to a relative link of Markdown, as [markdown.New] says.
func New(r *limits.Registry, page func(name string) string) *Renderer {
	return &Renderer{
		pages: limits.NewFairBytes[netip.Prefix](r, limits.Spec{
			Name: "gateway.page_bytes", Path: "sorted listings, rendered texts → clients",
			Policy: "the listing is not sorted; the text is shown as it is written",
		}, maxPageBytes, 2),
		renders: limits.NewFairBytes[netip.Prefix](r, limits.Spec{
			Name: "gateway.renders", Path: "previews → Markdown", Policy: "the text is shown as it is written",
		}, maxRenderBytes, 2),
		markdown: markdown.New(page),
	}
}

// Take reserves n bytes of gateway.page_bytes for a client, until Give. It returns false if there are not as many.
func (r *Renderer) Take(client netip.Prefix, n int64) bool { return r.pages.EnterN(client, n) == nil }

// Give gives n bytes back that Take reserved.
func (r *Renderer) Give(client netip.Prefix, n int64) { r.pages.LeaveN(client, n) }

// Hold reserves n bytes of memory for a page until release is called. It returns false if there are not as many.
func (r *Renderer) Hold(client netip.Prefix, n int64) (release func(), ok bool) {
	if n <= smallPage {
		return func() {}, true
	}
	if !r.Take(client, n) {
		return nil, false
	}
	return func() { r.Give(client, n) }, true
}

// Source is a text to render.
type Source struct {
	Bytes       []byte // UTF-8
	ContentType string
	Cut         bool // Bytes are the beginning of a longer text
}

// HTML is a rendered text. The caller calls Release when the page is sent.
type HTML struct {
	Body    template.HTML
	Notice  string // what it does not show; may be empty
	Release func()
}

// IsText reports whether bytes are text in UTF-8.
func IsText(p []byte) bool { return utf8.Valid(p) && bytes.IndexByte(p, 0) < 0 }

// IsTable reports whether a content type is that of values in rows.
func IsTable(contentType string) bool {
	return strings.HasPrefix(contentType, "text/csv") || isTabbed(contentType)
}

// isTabbed reports whether a content type is that of values with tabs between them.
func isTabbed(contentType string) bool {
	return strings.HasPrefix(contentType, "text/tab-separated-values")
}

// Render renders Markdown as prose, and values in rows as the rows of a table. For other texts the error is ErrPlain.
// An error that is not internal says in a sentence why the text is to be shown as it is written.
func (r *Renderer) Render(client netip.Prefix, s Source) (HTML, error) {
	var out HTML
	var err error
	what := "Markdown"
	switch {
	case kind.OfType(s.ContentType) == kind.Markdown:
		out.Body, err = r.prose(client, s)
	case IsTable(s.ContentType):
		what = "table"
		out.Body, out.Notice, err = table(s)
	default:
		err = ErrPlain
	}
	if err != nil {
		return out, err
	}
	var ok bool
	if out.Release, ok = r.Hold(client, int64(len(out.Body))); !ok {
		return HTML{}, busy(what)
	}
	return out, nil
}

// busy is the error for a text that others leave no memory for.
func busy(what string) error {
	return status.Errorf(status.Busy, "This %s is shown as it is written: this gateway renders others at the moment.",
		what)
}

// prose renders Markdown.
func (r *Renderer) prose(client netip.Prefix, s Source) (template.HTML, error) {
	const asWritten = "This Markdown is shown as it is written: %s."
	if s.Cut || len(s.Bytes) > markdown.MaxSource {
		tooLong := "it is longer than " + limits.Bytes(markdown.MaxSource).Human()
		return "", status.Errorf(status.BodyCap, asWritten, tooLong)
	}
	takes := int64(len(s.Bytes)) * markdown.MemoryPerByte
	if err := r.renders.EnterN(client, takes); err != nil {
		return "", busy("Markdown")
	}
	defer r.renders.LeaveN(client, takes)
	page, err := r.markdown.Render(s.Bytes)
	if errors.Is(err, markdown.ErrTooComplex) {
		err = status.Errorf(status.BodyCap, asWritten, "it is too complex")
	}
	return page, err
}

// table renders values in rows.
func table(s Source) (rows template.HTML, notice string, err error) {
	t, err := csvtable.Render(s.Bytes, isTabbed(s.ContentType), s.Cut)
	if err != nil {
		return "", "", ErrPlain
	}
	return t.Rows, t.Notice(), nil
}

// Plain returns a text as it is written, as HTML. It returns false if others leave no memory for it.
func (r *Renderer) Plain(client netip.Prefix, source []byte) (out HTML, ok bool) {
	out.Body = text.Escape(source)
	out.Release, ok = r.Hold(client, int64(len(out.Body)))
	return out, ok
}
