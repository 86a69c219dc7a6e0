package content

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"allium/gateway/exchange"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// contentPolicy keeps content from running scripts, submitting forms or
// loading from elsewhere in the gateway's origin. Subdomains of their own are
// where content may do more (SPEC §9). allow-same-origin lets a page show its
// own images, styles and fonts: from an opaque origin nothing is same-site. Without allow-scripts
// it gives the page nothing else.
const contentPolicy = "sandbox allow-same-origin; default-src 'none'; img-src 'self'; media-src 'self'; font-src 'self'; style-src 'self' 'unsafe-inline'"

// documentPolicy is contentPolicy for PDF files: browsers' viewers do not work in
// a sandbox. What such a file holds runs in the viewer, not in the gateway's
// origin, and nosniff keeps it from being taken for anything else.
const documentPolicy = "default-src 'none'; object-src 'self'; style-src 'unsafe-inline'; frame-ancestors 'self'"

// object answers /o/{b3}: the bytes, whatever they are, or with their proof.
func (g *Handlers) object(w *exchange.Response, r *http.Request, rest string) error {
	root, lower, err := exchange.ParseObject(rest)
	switch {
	case lower != "":
		return w.Redirect(r, http.StatusPermanentRedirect, "/o/"+lower)
	case err != nil:
		return err
	}
	w.Root = root
	if err := g.denylist.Object(root); err != nil {
		return err
	}
	wants, negotiated, err := wantsBao(r)
	if err != nil {
		return err
	}
	if wants {
		return g.watch(w, r, func(b *body) error { return g.encoded(b, r, root, negotiated) })
	}
	it := item{root: root, download: true, provable: true}
	if p := g.objects.Memory(root); p != nil { // nothing that could stand still
		b := newBody(r.Context(), w)
		defer b.free()
		return g.content(b, r, it, p)
	}
	return g.watch(w, r, func(b *body) error { return g.content(b, r, it, nil) })
}

// item is an object to serve and how it was named.
type item struct {
	root     b3.Root
	name     string  // last element of the path, "" for a bare address
	via      b3.Root // directory it was found in
	download bool    // documents are offered for download, not opened
	vary     string  // the header that chose it, if one did
	provable bool    // the verified encoding is had in the same place, by Accept too
}

// content answers with an object's bytes: conditions, ranges, and a header that
// is sent with the first verified group. memory is the object where it lies
// in RAM; where it is nil, it is opened. Whoever calls has asked the denylist.
func (g *Handlers) content(b *body, r *http.Request, it item, memory []byte) error {
	w := b.w
	if len(r.Header["Service-Worker"]) > 0 {
		return status.Errorf(status.NotAllowed, "content may not become a service worker")
	}
	b.item, b.known = it, g.kinds.get(it.root)
	if b.known != nil {
		b.etag = b.known.etag
	} else {
		b.etag = exchange.ETag(it.root)
	}
	if exchange.KnownFresh(r, b.etag) {
		return b.notModified()
	}
	var c Content
	b.size = int64(len(memory))
	if memory == nil {
		whole := r.Method == http.MethodGet && r.Header.Get("Range") == ""
		var err error
		if c, err = g.open(b.ctx, w, r, it.root, OpenOptions{Via: it.via, Whole: whole}); err != nil {
			return err
		}
		defer c.Close()
		b.size = c.Size()
	}
	switch exchange.Evaluate(r, b.etag) {
	case status.Precondition:
		return status.Errorf(status.Precondition, "If-Match does not hold %s", b.etag)
	case status.NotModified:
		return b.notModified()
	}
	b.code, b.part = http.StatusOK, byteRange{0, b.size}
	var asked []byteRange
	if ranges := r.Header["Range"]; len(ranges) > 0 && r.Method != http.MethodHead && exchange.RangeApplies(r, b.etag) { // RFC 9110 §14.2: GET alone
		var err error
		if asked, err = parseRanges(b.one[:0], strings.Join(ranges, ","), b.size, g.cfg.MultiRange); err != nil {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes */%d", b.size))
			w.Header().Set("Accept-Ranges", "bytes")
			return err
		}
		switch len(asked) {
		case 0:
		case 1:
			b.code, b.part = http.StatusPartialContent, asked[0]
		default:
			b.code, b.part = http.StatusPartialContent, byteRange{} // until the type tells how to split it
		}
	}
	if err := g.kind(b, r, c, memory); err != nil {
		return err
	}
	if len(asked) > 1 {
		b.split(asked)
	}
	b.header = (*body).objectHeader
	if r.Method == http.MethodHead {
		w.Head = true
		b.begin()
		return nil
	}
	if b.parts != nil {
		return b.parts.send(c, memory)
	}
	if err := b.copy(b, c, memory, b.part); err != nil {
		return err
	}
	b.begin() // nothing was written of the empty object
	return nil
}

// copy writes a part of the content, or of memory where that is not nil.
func (b *body) copy(to io.Writer, c Content, memory []byte, p byteRange) error {
	if memory == nil {
		return c.Copy(b.ctx, to, p.start, p.end)
	}
	_, err := to.Write(memory[p.start:p.end])
	return err
}

// kind finds the type of content: by name, or else by its first bytes, which
// are read once.
func (g *Handlers) kind(b *body, r *http.Request, c Content, memory []byte) error {
	if b.contentType = typeOf(b.item.name); b.contentType != "" {
		return nil
	}
	if b.known != nil {
		b.contentType = b.known.contentType
		return nil
	}
	b.kinds = g.kinds
	first := min(sniffLen, b.size)
	switch {
	case memory != nil:
		b.sniff(memory[:first])
	case r.Method == http.MethodGet && b.part.start == 0 && b.part.end >= first: // its first write will tell
	default:
		var head headBuffer
		if err := c.Copy(b.ctx, &head, 0, first); err != nil {
			return err
		}
		b.sniff(head)
	}
	return nil
}

// objectHeader sends the header of an object's answer.
func (b *body) objectHeader() {
	h := b.w.Header()
	h["Content-Type"] = b.w.HeaderValue(b.contentType)
	h["Accept-Ranges"] = unitBytes
	h["Content-Security-Policy"] = policyOfContent
	h["Cross-Origin-Resource-Policy"] = sameSite
	switch {
	case b.contentType == mimePDF && !b.item.download:
		h.Set("Content-Security-Policy", documentPolicy)
		h.Set("Content-Disposition", "inline; filename*=UTF-8''"+extValue(b.item.name))
	case b.item.download && isDocument(b.contentType):
		name := b.item.name
		if name == "" {
			name = "b3-" + b.item.root.Hex()[:16]
		}
		h.Set("Content-Disposition", "attachment; filename*=UTF-8''"+extValue(name))
	}
	b.validators()
	switch {
	case b.parts != nil:
		b.parts.header(h)
	case b.code == http.StatusPartialContent:
		h["Content-Length"] = b.w.HeaderValue(strconv.FormatInt(b.part.end-b.part.start, 10))
		h["Content-Range"] = b.w.HeaderValue(b.part.of(b.size))
	case b.known != nil:
		h["Content-Length"] = b.w.HeaderValue(b.known.length)
	default:
		h["Content-Length"] = b.w.HeaderValue(strconv.FormatInt(b.size, 10))
	}
	b.w.WriteHeader(b.code)
}

// Values of headers that are always the same. Nobody changes them: Add copies.
var (
	unitBytes       = []string{"bytes"}
	policyOfContent = []string{contentPolicy}
	sameSite        = []string{"same-site"}
	forEver         = []string{exchange.Immutable}
)

// extValue is a name in a header's parameter (RFC 8187 §3.2.1).
func extValue(name string) string { return strings.ReplaceAll(url.QueryEscape(name), "+", "%20") }

// validators sets what a 304 says too.
func (b *body) validators() {
	h := b.w.Header()
	h["Etag"] = b.w.HeaderValue(b.etag)
	h["Cache-Control"] = forEver
	if b.item.vary != "" {
		h.Set("Vary", b.item.vary)
	}
	if b.item.provable {
		h["Link"], h["Vary"] = linkToBao, bytesOrBao
	}
}

func (b *body) notModified() error {
	b.validators()
	b.w.WriteHeader(http.StatusNotModified)
	return nil
}

// onlyIfCached reports whether the client wants nothing to be fetched.
func onlyIfCached(r *http.Request) bool {
	for _, v := range r.Header.Values("Cache-Control") {
		for d := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(strings.TrimSpace(d), "only-if-cached") {
				return true
			}
		}
	}
	return false
}

// sniffLen is what http.DetectContentType looks at.
const sniffLen int64 = 512

// headBuffer keeps what is written to it.
type headBuffer []byte

func (h *headBuffer) Write(p []byte) (int, error) {
	*h = append(*h, p...)
	return len(p), nil
}
