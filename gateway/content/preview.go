package content

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"html/template"
	"iter"
	"net/http"
	"net/netip"
	"strings"
	"unicode/utf8"

	"allium/gateway/content/kind"
	"allium/gateway/content/markdown"
	"allium/gateway/content/mediatype"
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

// maxRenderBytes bounds the memory for texts that are rendered at once: one of the longest, which takes about 0.2 s of
// a core, or several ordinary ones. A client has at most a third of it, or one text, while others are free.
const maxRenderBytes = 96 << 20

// newRenders returns the limit of gateway.renders.
func newRenders(r *limits.Registry) *limits.FairGate[netip.Prefix] {
	return limits.NewFairBytes[netip.Prefix](r, limits.Spec{
		Name: "gateway.renders", Path: "previews → Markdown", Policy: "the text is shown as it is written",
	}, maxRenderBytes, 2)
}

// previewPage is the page of one file. Its fields are the templates' data.
type previewPage struct {
	pageTop
	Directory  bool
	File       string // URL of the file itself
	Kind, Icon string
	Size       string
	Exact      string
	Executable bool
	Notice     string // what the preview does not show, and why; empty: nothing

	Show     string // what the template shows: the name of a kind, or empty for no preview
	Markdown template.HTML
	Lines    iter.Seq[template.HTML] // the lines of a text, in pieces
}

// previewPolicies are the Content-Security-Policies of previews by what they show. Each allows only what that needs:
// no page runs scripts, and none loads anything from elsewhere.
var previewPolicies = map[string]string{
	kind.Image.Name:    exchange.PagePolicy,
	kind.Video.Name:    exchange.PagePolicy + "; media-src 'self'",
	kind.Audio.Name:    exchange.PagePolicy + "; media-src 'self'",
	kind.PDF.Name:      exchange.PagePolicy + "; object-src 'self'; frame-src 'self'",
	kind.Markdown.Name: exchange.PagePolicy,
	kind.Text.Name:     exchange.PagePolicy,
	"":                 exchange.PagePolicy,
}

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
	p := &previewPage{
		pageTop: newPageTop(t, b.w.Frame(), shared), Executable: executable, Size: limits.Bytes(b.size).Human(),
		Exact: fmt.Sprintf("%d bytes", b.size), File: percentEncode(it.name),
	}
	if len(t.names) == 0 && t.mount == nil {
		p.File = p.Prefix + t.href(false)
	}
	contentType := mediatype.OfName(it.name)
	plain := t.mount != nil && t.mount.Plain
	var head headBuffer
	k := kind.OfType(contentType)
	if !plain && (contentType == "" || k == kind.Text || k == kind.Markdown || k == kind.WebPage) {
		if err := c.Copy(b.ctx, &head, 0, min(b.size, maxPreview)); err != nil {
			return err
		}
	}
	if sniffed[contentType] && !plain {
		if err := c.Copy(b.ctx, &head, 0, min(b.size, sniffLen)); err != nil {
			return err
		}
	}
	if contentType == "" && !plain {
		contentType = http.DetectContentType(head)
	}
	k = kind.OfType(contentType)
	p.Kind, p.Icon, p.Show = k.Name, k.Icon, k.Name
	if k == kind.WebPage {
		p.Show = kind.Text.Name
	}
	if _, shows := previewPolicies[p.Show]; !shows || plain {
		p.Show = ""
	}
	if sniffed[contentType] && !plain && http.DetectContentType(head) != contentType {
		p.Show, p.Notice = "", "This file is called an image, and it does not begin like one."
	}
	release, shown := func() {}, int64(0)
	if p.Show == kind.Markdown.Name || p.Show == kind.Text.Name {
		if shown, release, err = g.showText(b, p, head); err != nil {
			return err
		}
	}
	defer release()
	head = nil // it is not held while the client reads
	etag := pageTag(t.mount.key(it.root), t.mount.key(t.root), p.Show, p.Notice, shared.Ticket, p.Note, p.Prefix)
	header := &pageHead{
		etag: etag, contentType: exchange.MediaHTML, policy: previewPolicies[p.Show], vary: []string{"Accept-Encoding"},
	}
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
		p.Lines = text.Lines(b.ctx, c, shown, &failed)
		err := pageTemplates().ExecuteTemplate(to, "preview", p)
		return cmp.Or(failed, err)
	})
}

// showText fills in the preview of a text, and returns how many bytes of it are shown as text. head is the text, or
// the first maxPreview bytes of it. The caller calls release when the page is sent.
func (g *Handlers) showText(b *body, p *previewPage, head []byte) (shown int64, release func(), err error) {
	release = func() {}
	cut := int64(len(head)) < b.size
	if cut { // not in the middle of a character
		head = head[:mediatype.WholeRunes(head)]
	}
	if !utf8.Valid(head) || bytes.IndexByte(head, 0) >= 0 {
		p.Show, p.Notice = "", "This file is called a text, and it is no text in UTF-8."
		return 0, release, nil
	}
	if p.Show == kind.Markdown.Name {
		page, held, err := g.render(b, head, cut)
		if err == nil {
			p.Markdown = page
			return 0, held, nil
		}
		if p.Notice = err.Error(); status.Of(err) == status.Internal {
			return 0, release, err
		}
		p.Show = kind.Text.Name
	}
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

// render renders Markdown, which was cut if it is long. An error that is not internal says why it is shown as it is
// written instead. The caller calls release when the page is sent.
func (g *Handlers) render(b *body, source []byte, cut bool) (page template.HTML, release func(), err error) {
	const asWritten = "This Markdown is shown as it is written: %s."
	if cut || len(source) > markdown.MaxSource {
		tooLong := "it is longer than " + limits.Bytes(markdown.MaxSource).Human()
		return "", nil, status.Errorf(status.BodyCap, asWritten, tooLong)
	}
	busy := status.Errorf(status.Busy, asWritten, "this gateway renders others at the moment")
	key, takes := b.w.From.Group, int64(len(source))*markdown.MemoryPerByte
	if err := g.renders.EnterN(key, takes); err != nil {
		return "", nil, busy
	}
	defer g.renders.LeaveN(key, takes)
	page, err = g.markdown.Render(source)
	if errors.Is(err, markdown.ErrTooComplex) {
		err = status.Errorf(status.BodyCap, asWritten, "it is too complex")
	}
	if err != nil {
		return "", nil, err
	}
	release, ok := g.holdPage(b, int64(len(page)))
	if !ok {
		return "", nil, busy
	}
	return page, release, nil
}

// filePage returns the query with which a file's URL leads to the page of the file, and "" for a web page, which is a
// page itself.
func filePage(k kind.Kind) string {
	if k == kind.WebPage {
		return ""
	}
	return "?view=" + viewPreview
}

// pageOf returns filePage of the kind of a file with that name.
func pageOf(name string) string { return filePage(kind.OfType(mediatype.OfName(name))) }
