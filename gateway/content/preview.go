package content

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"allium/gateway/content/highlight"
	"allium/gateway/content/kind"
	"allium/gateway/content/mediatype"
	"allium/gateway/content/pages"
	"allium/gateway/content/rendering"
	"allium/gateway/content/text"
	"allium/gateway/exchange"
	"allium/internal/limits"
	"allium/protocols/status"
)

// The bounds of a preview. It reads no more of a file than maxPreview bytes.
const (
	maxPreview = 256 << 10
	maxLines   = 5_000 // lines of a text that are shown
)

// sniffed are the types of images whose first bytes are checked before a page shows them.
var sniffed = map[string]bool{"image/png": true, "image/jpeg": true, "image/gif": true, "image/webp": true}

// preview serves the page of a file: what a browser can show of it, and how to get it. It reads at most maxPreview
// bytes, all of them proved. Images, sounds, videos and PDF files are loaded by the browser, as content.
func (g *Handlers) preview(b *body, r *http.Request, t target, it item, executable bool) error {
	c, err := g.open(b, r, it.root, OpenOptions{Via: it.via})
	if err != nil {
		return err
	}
	defer c.Close()
	b.size = c.Size()
	shared := g.shared(t, it.root, false, b.size)
	p := &pages.File{
		Top: t.top(b.w.Frame(), shared), URL: exchange.PercentEncode(it.name),
		Facts: pages.Facts{
			Executable: executable, Size: limits.Bytes(b.size).Human(), Exact: fmt.Sprintf("%d bytes", b.size),
		},
	}
	if len(t.names) == 0 && t.mount == nil {
		p.URL = p.Prefix + t.href(false)
	}
	contentType := mediatype.OfName(it.name)
	plain := t.mount != nil && t.mount.Plain
	head, err := previewHead(b, c, &contentType, plain)
	if err != nil {
		return err
	}
	showKind(p, contentType, head, plain)
	release, shown := func() {}, int64(0)
	if p.Show == kind.Markdown.Name || p.Show == kind.Text.Name || p.Show == pages.Table {
		if shown, release, err = showText(g.renderer, b, p, head, contentType); err != nil {
			return err
		}
	}
	defer release()
	header := &pageHead{contentType: exchange.MediaHTML, vary: []string{"Accept-Encoding"}}
	if p.Show == kind.Image.Name {
		header.passing = !neighbours(g, b, r, t, p)
	}
	header.policy, _ = pages.Policy(p.Show)
	header.etag = pageTag(t.mount.key(it.root), t.mount.key(t.root), t.path(), p.Show, p.Notice, shared.Ticket, p.Note,
		p.Prefix)
	if fresh, err := g.pageHeader(b, r, header); fresh || err != nil {
		return err
	}
	coding, done := g.encoders.Acquire(r)
	defer done()
	header.coding = coding
	if r.Method == http.MethodHead {
		b.w.Head = true
		b.begin()
		return nil
	}
	b.w.Listing = true
	return b.writePage(r, g.encoders, coding, func(to *output) error {
		var failed error
		p.Lines = text.Lines(b.ctx, c, shown, highlight.Of(it.name), &failed)
		err := pages.Execute(to, "file", p)
		return cmp.Or(failed, err)
	})
}

// previewHead reads what the page of a file needs of it: the beginning of a text, and the first bytes of an image or
// of a file whose name does not say its type, which they tell then. Where plain is true it reads nothing.
func previewHead(b *body, c Content, contentType *string, plain bool) (headBuffer, error) {
	k, length := kind.OfType(*contentType), int64(0)
	switch {
	case plain:
		return nil, nil
	case *contentType == "", k == kind.Text, k == kind.Markdown, k == kind.WebPage:
		length = maxPreview
	case sniffed[*contentType]:
		length = sniffLen
	}
	var head headBuffer
	if err := c.Copy(b.ctx, &head, 0, min(b.size, length)); err != nil {
		return nil, err
	}
	if *contentType == "" {
		*contentType = http.DetectContentType(head)
	}
	return head, nil
}

// showKind fills in what kind of file p is about, and what it shows.
func showKind(p *pages.File, contentType string, head headBuffer, plain bool) {
	k := kind.OfType(contentType)
	p.Kind, p.Icon, p.Show = k.Name, k.Icon, k.Name
	switch {
	case k == kind.WebPage:
		p.Show = kind.Text.Name
	case rendering.IsTable(contentType):
		p.Show = pages.Table
	}
	if _, shows := pages.Policy(p.Show); !shows || plain {
		p.Show = ""
	}
	if sniffed[contentType] && !plain && http.DetectContentType(head) != contentType {
		p.Show, p.Notice = "", "This file is called an image, and it does not begin like one."
	}
}

// showText fills in the preview of a text, and returns how many bytes of it are shown as text. head is the text, or
// the first maxPreview bytes of it. The caller calls release when the page is sent.
func showText(
	renderer *rendering.Renderer, b *body, p *pages.File, head []byte, contentType string,
) (shown int64, release func(), err error) {
	release = func() {}
	cut := int64(len(head)) < b.size
	if cut { // not in the middle of a character
		head = head[:mediatype.WholeRunes(head)]
	}
	if !rendering.IsText(head) {
		p.Show, p.Notice = "", "This file is called a text, and it is no text in UTF-8."
		return 0, release, nil
	}
	page, err := renderer.Render(b.w.From.Group, rendering.Source{Bytes: head, ContentType: contentType, Cut: cut})
	switch {
	case err == nil:
		p.Body, p.Notice = page.Body, page.Notice
		return 0, page.Release, nil
	case errors.Is(err, rendering.ErrPlain):
	case status.Of(err) == status.Internal:
		return 0, release, err
	default:
		p.Notice = err.Error()
	}
	p.Show = kind.Text.Name
	end := 0
	for range maxLines {
		n := bytes.IndexByte(head[end:], '\n') + 1
		if n == 0 {
			end = len(head)
			break
		}
		end += n
	}
	if cut || end < len(head) {
		p.Notice = strings.TrimSpace(fmt.Sprintf("%s This is the beginning, %s of %s.", p.Notice,
			limits.Bytes(end).Human(), p.Size))
	}
	return int64(end), release, nil
}

// filePage returns the query with which a file's URL leads to the page of the file.
func filePage(k kind.Kind) string { return pages.FilePage(k) }
