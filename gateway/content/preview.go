package content

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"unicode/utf8"

	"allium/gateway/content/markdown"
	"allium/gateway/exchange"
	"allium/internal/limits"
	"allium/protocols/status"
)

// The bounds of a preview. It reads no more of a file than maxPreview bytes.
const (
	maxPreview = 256 << 10
	maxLines   = 5_000 // lines of a text that are shown
)

// maxRenders bounds the texts that are rendered at once. Each takes at most about 0.2 s of a core and 16 MiB. A client
// has at most a third of the places while others are free.
const maxRenders = 4

// newRenders returns the gate of gateway.renders.
func newRenders(r *limits.Registry) *limits.FairGate[netip.Prefix] {
	return limits.NewFairGate[netip.Prefix](r, limits.Spec{
		Name: "gateway.renders", Path: "previews → Markdown", Policy: "the text is shown as it is written",
	}, maxRenders, 2)
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
	Lines    []string
}

// previewPolicies are the Content-Security-Policies of previews by what they show. Each allows only what that needs:
// no page runs scripts, and none loads anything from elsewhere.
var previewPolicies = map[string]string{
	kindImage.Name:    exchange.PagePolicy,
	kindVideo.Name:    exchange.PagePolicy + "; media-src 'self'",
	kindAudio.Name:    exchange.PagePolicy + "; media-src 'self'",
	kindPDF.Name:      exchange.PagePolicy + "; object-src 'self'; frame-src 'self'",
	kindMarkdown.Name: exchange.PagePolicy,
	kindText.Name:     exchange.PagePolicy,
	"":                exchange.PagePolicy,
}

// sniffed are the types of images whose first bytes are checked before a page shows them.
var sniffed = map[string]bool{"image/png": true, "image/jpeg": true, "image/gif": true, "image/webp": true}

// preview serves the page of a file: what a browser can show of it, and how to get it. It reads at most maxPreview
// bytes, all of them proved. Images, sounds, videos and PDF files are loaded by the browser, as content.
func (g *Handlers) preview(b *body, r *http.Request, t target, it item, executable bool) error {
	c, err := g.open(b.ctx, b.w, r, it.root, OpenOptions{Via: it.via})
	if err != nil {
		return err
	}
	defer c.Close()
	b.size = c.Size()
	shared := g.shared(t, it.root, false, b.size)
	p := &previewPage{
		pageTop: newPageTop(t, shared), Executable: executable, Size: limits.Bytes(b.size).Human(),
		Exact: fmt.Sprintf("%d bytes", b.size), File: "./" + url.PathEscape(it.name),
	}
	if len(t.names) == 0 {
		p.File = t.url(false)
	}
	contentType := typeOf(it.name)
	var head headBuffer
	if k := kindOfType(contentType); contentType == "" || k == kindText || k == kindMarkdown || k == kindWebPage {
		if err := c.Copy(b.ctx, &head, 0, min(b.size, maxPreview)); err != nil {
			return err
		}
	}
	if sniffed[contentType] {
		if err := c.Copy(b.ctx, &head, 0, min(b.size, sniffLen)); err != nil {
			return err
		}
	}
	if contentType == "" {
		contentType = http.DetectContentType(head[:min(len(head), int(sniffLen))])
	}
	k := kindOfType(contentType)
	p.Kind, p.Icon, p.Show = k.Name, k.Icon, k.Name
	if k == kindWebPage {
		p.Show = kindText.Name
	}
	if _, shows := previewPolicies[p.Show]; !shows {
		p.Show = ""
	}
	if sniffed[contentType] && http.DetectContentType(head) != contentType {
		p.Show, p.Notice = "", "This file is called an image, and it does not begin like one."
	}
	if p.Show == kindMarkdown.Name || p.Show == kindText.Name {
		if err := g.showText(b, p, head); err != nil {
			return err
		}
	}
	etag := pageTag(it.root, t.root.String(), p.Show, p.Notice, shared.Ticket)
	fresh, err := g.pageHeader(b, r, pageHead{
		etag: etag, contentType: exchange.MediaHTML, policy: previewPolicies[p.Show], vary: []string{"Accept-Encoding"},
	})
	if fresh || err != nil {
		return err
	}
	return g.sendPage(b, r, "preview", p)
}

// showText fills in the preview of a text. head is the text, or the first maxPreview bytes of it.
func (g *Handlers) showText(b *body, p *previewPage, head []byte) error {
	cut := int64(len(head)) < b.size
	if cut { // not in the middle of a character
		for i := 0; i < utf8.UTFMax && len(head) > 0 && !utf8.Valid(head[max(0, len(head)-utf8.UTFMax):]); i++ {
			head = head[:len(head)-1]
		}
	}
	if !utf8.Valid(head) || bytes.IndexByte(head, 0) >= 0 {
		p.Show, p.Notice = "", "This file is called a text, and it is no text in UTF-8."
		return nil
	}
	if p.Show == kindMarkdown.Name {
		text, err := g.render(b, head, cut)
		if err == nil {
			p.Markdown = text
			return nil
		}
		if p.Notice = err.Error(); status.Of(err) == status.Internal {
			return err
		}
		p.Show = kindText.Name
	}
	lines := bytes.SplitAfterN(head, []byte("\n"), maxLines+1)
	if len(lines) > maxLines {
		lines, cut = lines[:maxLines], true
	}
	shown := 0
	for _, line := range lines {
		shown += len(line)
		if text := strings.TrimRight(string(line), "\r\n"); len(line) > 0 {
			p.Lines = append(p.Lines, exchange.EscapeText(text))
		}
	}
	if cut {
		p.Notice = strings.TrimSpace(fmt.Sprintf("%s This is the beginning, %s of %s.", p.Notice,
			limits.Bytes(shown).Human(), p.Size))
	}
	return nil
}

// render renders Markdown, which was cut if it is long. An error that is not internal says why it is shown as it is
// written instead.
func (g *Handlers) render(b *body, text []byte, cut bool) (template.HTML, error) {
	const asWritten = "This Markdown is shown as it is written: %s."
	if cut || len(text) > markdown.MaxSource {
		return "", status.Errorf(status.BodyCap, asWritten, "it is longer than "+limits.Bytes(markdown.MaxSource).Human())
	}
	key := b.w.From.Group
	if err := g.renders.Enter(key); err != nil {
		return "", status.Errorf(status.Busy, asWritten, "this gateway renders others at the moment")
	}
	defer g.renders.Leave(key)
	html, err := g.markdown.Render(text)
	if errors.Is(err, markdown.ErrTooComplex) {
		return "", status.Errorf(status.BodyCap, asWritten, "it is too complex")
	}
	return html, err
}

// sendPage sends the page that a template makes of data. A page is at most some MiB, and is held in memory.
func (g *Handlers) sendPage(b *body, r *http.Request, name string, data any) error {
	coding, done := g.acquireEncoder(r)
	defer done()
	if coding != "" {
		b.w.Header().Set("Content-Encoding", coding)
	}
	if r.Method == http.MethodHead {
		b.w.Head = true
		b.begin()
		return nil
	}
	var out bytes.Buffer
	if err := pageTemplates.ExecuteTemplate(&out, name, data); err != nil {
		return err
	}
	var body bytes.Buffer
	if coding != "" {
		enc, err := newEncoder(&body, coding)
		if err == nil {
			_, err = enc.Write(out.Bytes())
			err = cmp.Or(err, enc.Close())
		}
		if err != nil {
			return err
		}
		out = body
	}
	b.w.Header()["Content-Length"] = b.w.HeaderValue(fmt.Sprint(out.Len()))
	_, err := b.Write(out.Bytes())
	return err
}
