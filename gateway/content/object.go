package content

import (
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"allium/gateway/content/byterange"
	"allium/gateway/content/mediatype"
	"allium/gateway/exchange"
	"allium/gateway/site"
	"allium/protocols/b3"
	"allium/protocols/bao"
	"allium/protocols/status"
)

// contentPolicy is the Content-Security-Policy of content. Content may not run scripts, submit forms or load from other
// origins: it shares the gateway's origin. Content in its own subdomain may do more (SPEC §9). allow-same-origin lets a
// page show its own images, styles and fonts, because nothing is same-site for an opaque origin. Without allow-scripts
// it permits nothing else.
const contentPolicy = "sandbox allow-same-origin; default-src 'none'; img-src 'self'; media-src 'self'; " +
	"font-src 'self'; style-src 'self' 'unsafe-inline'"

// documentPolicy is the Content-Security-Policy of PDF files, because browsers' PDF viewers
// do not work in a sandbox. A script in a PDF file runs in the viewer, not in the gateway's
// origin. nosniff keeps browsers from reading the file as another type.
const documentPolicy = "default-src 'none'; object-src 'self'; style-src 'unsafe-inline'; frame-ancestors 'self'"

func (g *Handlers) objectEndpoint() exchange.Endpoint {
	return exchange.Endpoint{
		ID: "getObject", Name: "object", Methods: exchange.Reading, Path: "/o/{b3}",
		On: exchange.OnPublic, AnyQuery: true,
		Doc: "Returns the bytes of an object. The gateway verifies each chunk group before it sends it.",
		More: "A request may have one range, or more if the operator allows it (`gateway.multi_range`). " +
			"An address in another form is redirected: 64 hex digits alone, 52 base32 digits, uppercase. " +
			"A name behind the address, `/o/b3:…/name.zip`, names the bytes, and its ending says their type. " +
			"The gateway finds and fetches an object that is not " +
			"on this node from peers, unless Cache-Control has only-if-cached. With format=bao, or an Accept that " +
			"names " + bao.MediaType + ", the answer is the verified encoding (docs/http.md).",
		Params: []exchange.Param{
			{
				Name: "format", Of: []string{"bao"},
				Doc: "asks for the verified encoding: the size, 8 bytes little-endian, and the tree's parents " +
					"and chunk groups in pre-order",
			},
			{
				Name: "bytes",
				Doc:  "with format=bao: the range of the object's bytes to encode, FIRST-LAST, FIRST- or -COUNT",
			},
		},
		Headers: append([]string{"Accept"}, contentHeaders...),
		Answers: slices.Concat(contentAnswers, baoAnswers, []exchange.Reply{canonicalAddress}),
		Fails:   contentFails,
		Serve: func(w *exchange.Response, r *http.Request, in exchange.Input) error {
			return g.object(w, r, in.Rest)
		},
	}
}

// object serves /o/{b3}: an object's bytes, or its verified encoding.
func (g *Handlers) object(w *exchange.Response, r *http.Request, rest string) error {
	rest, name := cutName(strings.TrimLeft(rest, "/"))
	root, canonical, err := exchange.ParseObject(rest)
	switch {
	case canonical != "" && name != "":
		return w.Redirect(r, http.StatusPermanentRedirect, "/o/"+canonical+"/"+url.PathEscape(name))
	case canonical != "":
		return w.Redirect(r, http.StatusPermanentRedirect, "/o/"+canonical)
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
		if !negotiated && g.live.Load().OpenProofs {
			exchange.AllowInternet(w)
		}
		return g.withStallTimeout(w, r, func(b *body) error { return g.serveEncoding(b, r, root, negotiated) })
	}
	it := item{root: root, name: name, download: true, hasEncoding: true}
	return g.withStallTimeout(w, r, func(b *body) error { return g.content(b, r, it, g.objects.Memory(root)) })
}

// cutName cuts the name off an escaped address with a name behind it. It returns anything else as it is.
func cutName(rest string) (key, name string) {
	path, err := url.PathUnescape(rest)
	key, name, found := strings.Cut(path, "/")
	if err != nil || !found || name == "." || !fs.ValidPath(name) || strings.ContainsAny(name, "/\x00") {
		return rest, ""
	}
	return url.PathEscape(key), name
}

// item is an object to serve and the URL that named it.
type item struct {
	root        b3.Root
	name        string     // last element of the path, "" for a bare address
	via         b3.Root    // root directory of the URL, zero for a bare address
	download    bool       // HTML, XML and PDF are offered for download instead of being opened
	vary        string     // request header that selected this item, "" if none did
	hasEncoding bool       // the same URL serves the verified encoding too, also by Accept
	mount       *Mount     // what the URL lies below; nil: nothing
	storedOnly  bool       // peers are not asked for it
	page        *site.Page // how its site serves it; nil: it is served in the gateway's origin
}

// content serves an object's bytes. It evaluates the conditions and the range, and sends the
// header with the first verified chunk group. memory is the whole object if it is in RAM;
// if memory is nil, content opens the object. The caller has consulted the denylist.
func (g *Handlers) content(b *body, r *http.Request, it item, memory []byte) error {
	w := b.w
	if err := refuseServiceWorker(r); err != nil && it.page == nil {
		return err
	}
	b.item, b.cached = it, g.headers.Get(it.root)
	switch {
	case it.mount != nil:
		b.etag = `"` + it.mount.key(it.root) + `"`
	case b.cached != nil:
		b.etag = b.cached.ETag
	default:
		b.etag = exchange.ETag(it.root)
	}
	unlike := it.page != nil && it.page.Code != http.StatusOK // no conditions or ranges are about an error
	if exchange.KnownFresh(r, b.etag) && !unlike {
		return b.notModified()
	}
	var c Content
	b.size = int64(len(memory))
	if memory != nil {
		w.LookupID = g.served(it.root)
	} else {
		whole := r.Method == http.MethodGet && r.Header.Get("Range") == ""
		var err error
		if c, err = g.open(b, r, it.root, OpenOptions{Via: it.via, Whole: whole}); err != nil {
			return err
		}
		defer c.Close()
		b.size = c.Size()
	}
	switch outcome := exchange.EvaluateDated(r, b.etag, b.modified()); {
	case unlike:
	case outcome == status.Precondition:
		return exchange.PreconditionFailed(r, b.etag, b.modified())
	case outcome == status.NotModified:
		return b.notModified()
	}
	b.code, b.part = http.StatusOK, byterange.Range{End: b.size}
	var asked []byterange.Range
	header := r.Header["Range"]
	// Only GET has ranges (RFC 9110 §14.2).
	if unlike {
		b.code = it.page.Code
	} else if len(header) > 0 && r.Method != http.MethodHead && exchange.RangeApplies(r, b.etag, b.modified()) {
		var err error
		most := g.live.Load().MultiRange
		if asked, err = byterange.Parse(b.rangeBuf[:0], strings.Join(header, ","), b.size, most); err != nil {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes */%d", b.size))
			w.Header().Set("Accept-Ranges", "bytes")
			return err
		}
		switch len(asked) {
		case 0:
		case 1:
			b.code, b.part = http.StatusPartialContent, asked[0]
		default:
			b.code, b.part = http.StatusPartialContent, byterange.Range{} // split needs the content type first
		}
	}
	if err := g.setContentType(b, r, c, memory); err != nil {
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
	if err := it.mount.begin(); err != nil {
		return err
	}
	if b.multipart != nil {
		return b.multipart.send(c, memory)
	}
	if err := b.copyRange(b, c, memory, b.part); err != nil {
		return err
	}
	b.begin() // an empty object has no first write that would send the header
	return nil
}

// refuseServiceWorker returns not_allowed for a request that registers a service worker.
func refuseServiceWorker(r *http.Request) error {
	if len(r.Header["Service-Worker"]) == 0 {
		return nil
	}
	return status.Errorf(status.NotAllowed, "cannot serve a service worker: "+
		"scripts of content do not run in the gateway's origin. Serve the page from a web server of its own")
}

// copyRange writes the range p to to: from memory, or from c if memory is nil.
func (b *body) copyRange(to io.Writer, c Content, memory []byte, p byterange.Range) error {
	if memory == nil {
		return c.Copy(b.ctx, to, p.Start, p.End)
	}
	_, err := to.Write(memory[p.Start:p.End])
	return err
}

// setContentType sets the media type of b's item: by its name, or else by its first bytes.
// Those also say whether text is declared UTF-8. It reads them once for each address and
// remembers the result.
func (g *Handlers) setContentType(b *body, r *http.Request, c Content, memory []byte) error {
	named := mediatype.OfName(b.item.name)
	if named != "" && !strings.HasSuffix(named, mediatype.DeclaredUTF8) {
		b.contentType = named
		return nil
	}
	if b.cached != nil {
		b.contentType = b.cached.ContentType(named)
		return nil
	}
	b.headers = g.headers
	first := min(mediatype.SniffLen, b.size)
	switch {
	case memory != nil:
		b.sniff(memory[:first])
	case r.Method == http.MethodGet && b.part.Start == 0 && b.part.End >= first: // the first write sniffs
	default:
		var head headBuffer
		if err := c.Copy(b.ctx, &head, 0, first); err != nil {
			return err
		}
		b.sniff(head)
	}
	return nil
}

// objectHeader sends the header of an answer that carries an object's bytes.
func (b *body) objectHeader() {
	h := b.w.Header()
	b.typeHeader(h)
	b.validators()
	switch {
	case b.multipart != nil:
		b.multipart.header(h)
	case b.code == http.StatusPartialContent:
		h["Content-Length"] = b.w.HeaderValue(strconv.FormatInt(b.part.Len(), 10))
		h["Content-Range"] = b.w.HeaderValue(b.part.Of(b.size))
	case b.cached != nil:
		h["Content-Length"] = b.w.HeaderValue(b.cached.Length)
	default:
		h["Content-Length"] = b.w.HeaderValue(strconv.FormatInt(b.size, 10))
	}
	b.w.WriteHeader(b.code)
}

// typeHeader sets the headers that say how a browser treats the bytes.
func (b *body) typeHeader(h http.Header) {
	h["Content-Type"] = b.w.HeaderValue(b.contentType)
	h["Accept-Ranges"] = unitBytes
	if b.item.page != nil {
		return // the content does not share the gateway's origin
	}
	h["Content-Security-Policy"] = policyOfContent
	h["Cross-Origin-Resource-Policy"] = sameSite
	switch {
	case b.item.mount != nil:
		attach := mediatype.IsDocument(b.contentType)
		h.Set("Content-Disposition", b.item.mount.disposition(b.item.name, attach))
	case b.contentType == mediatype.PDF && !b.item.download:
		h.Set("Content-Security-Policy", documentPolicy)
		h.Set("Content-Disposition", "inline; filename*=UTF-8''"+exchange.PercentEncode(b.item.name))
	case b.item.download && mediatype.IsDocument(b.contentType):
		name := b.item.name
		if name == "" {
			name = "b3-" + b.item.root.Hex()[:16]
		}
		h.Set("Content-Disposition", "attachment; filename*=UTF-8''"+exchange.PercentEncode(name))
	}
}

// Header values that never change. http.Header.Add copies them, so no handler modifies them.
var (
	unitBytes       = []string{"bytes"}
	policyOfContent = []string{contentPolicy}
	sameSite        = []string{"same-site"}
	cacheForever    = []string{exchange.Immutable}
	longAgo         = []string{exchange.LongAgo.Format(http.TimeFormat)}
)

// validators sets the headers that a 304 answer has too.
func (b *body) validators() {
	h := b.w.Header()
	h["Etag"] = b.w.HeaderValue(b.etag)
	switch at := b.modified(); {
	case at.Equal(exchange.LongAgo):
		h["Last-Modified"] = longAgo
	case !at.IsZero():
		h["Last-Modified"] = b.w.HeaderValue(at.UTC().Format(http.TimeFormat))
	}
	if b.w.Caching != "" {
		h["Cache-Control"] = b.w.HeaderValue(b.w.Caching)
	} else {
		h["Cache-Control"] = cacheForever
	}
	if b.item.vary != "" {
		h.Set("Vary", b.item.vary)
	}
	if b.item.hasEncoding {
		h["Link"], h["Vary"] = linkToBao, varyAccept
	}
	if b.item.page != nil {
		b.item.page.SetHeaders(h)
	}
}

// modified returns the time of the content for clients that know only dates. Content that an address names is long
// old; what a name stands for is as old as its record. It is zero if nobody knows.
func (b *body) modified() time.Time {
	if b.w.Caching == "" {
		return exchange.LongAgo
	}
	return b.w.Modified
}

func (b *body) notModified() error {
	b.validators()
	b.w.WriteHeader(http.StatusNotModified)
	return nil
}

// sniffLen is the maximum number of bytes that http.DetectContentType looks at.
const sniffLen int64 = 512

// headBuffer collects the bytes written to it.
type headBuffer []byte

func (h *headBuffer) Write(p []byte) (int, error) {
	*h = append(*h, p...)
	return len(p), nil
}
