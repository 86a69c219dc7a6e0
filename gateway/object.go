package gateway

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// contentPolicy keeps content from running scripts, submitting forms or
// loading from elsewhere in the gateway's origin. Subdomains of their own are
// where content may do more (SPEC §9). allow-same-origin lets a page show its
// own images: from an opaque origin nothing is same-site. Without allow-scripts
// it gives the page nothing else.
const contentPolicy = "sandbox allow-same-origin; default-src 'none'; img-src 'self'; media-src 'self'; style-src 'unsafe-inline'"

// immutable is the Cache-Control of what an address stands for.
const immutable = "public, max-age=31536000, immutable"

// object answers /o/{b3}: the bytes, whatever they are, or with their proof.
func (g *Gateway) object(w *response, r *http.Request, rest string) error {
	root, lower, err := parseObject(rest)
	switch {
	case lower != "":
		return redirect(w, r, http.StatusPermanentRedirect, "/o/"+lower)
	case err != nil:
		return err
	}
	w.addr = root.Hex()[:8]
	wants, negotiated, err := wantsBao(r)
	if err != nil {
		return err
	}
	return g.watch(w, r, func(b *body) error {
		if wants {
			return g.encoded(b, r, root, negotiated)
		}
		return g.content(b, r, item{root: root, download: true, provable: true})
	})
}

// parseObject reads the address in an escaped path. Of one with uppercase
// digits it gives what it should be instead.
func parseObject(rest string) (root b3.Root, lower string, err error) {
	key, err := url.PathUnescape(rest)
	if err != nil {
		return root, "", status.Errorf(status.BadRequest, "the path is not well escaped: %w", err)
	}
	root, err = b3.Parse(key)
	if err == nil {
		return root, "", nil
	}
	if l := strings.ToLower(key); l != key {
		if _, lowerErr := b3.Parse(l); lowerErr == nil {
			return root, l, nil
		}
	}
	return root, "", err
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

// content answers with an object's bytes: conditions, one range, and a header
// that is sent with the first verified group.
func (g *Gateway) content(b *body, r *http.Request, it item) error {
	w := b.w
	if r.Header.Get("Service-Worker") != "" {
		return status.Errorf(status.NotAllowed, "content may not become a service worker")
	}
	etag := etagOf(it.root)
	if knownFresh(r, etag) {
		return notModified(w, it)
	}
	whole := r.Method == http.MethodGet && r.Header.Get("Range") == ""
	c, err := g.open(b.ctx, r, it.root, OpenOptions{Via: it.via, Whole: whole})
	if err != nil {
		return err
	}
	defer c.Close()
	switch evaluate(r, etag) {
	case status.Precondition:
		return status.Errorf(status.Precondition, "If-Match does not hold %s", etag)
	case status.NotModified:
		return notModified(w, it)
	}
	code, rng := http.StatusOK, byteRange{0, c.Size()}
	if rangeApplies(r, etag) {
		part, ok, err := parseRange(strings.Join(r.Header.Values("Range"), ","), c.Size())
		if err != nil {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes */%d", c.Size()))
			w.Header().Set("Accept-Ranges", "bytes")
			return err
		}
		if ok {
			code, rng = http.StatusPartialContent, part
		}
	}
	contentType := typeOf(it.name)
	tells := r.Method == http.MethodGet && rng.start == 0 && rng.end >= min(sniffLen, c.Size()) // its first write will
	if contentType == "" && !tells {
		if contentType, err = sniff(b, c); err != nil {
			return err
		}
	}
	b.header = func(first []byte) {
		if contentType == "" {
			contentType = http.DetectContentType(first)
		}
		objectHeader(w, it, contentType)
		h := w.Header()
		h.Set("Content-Length", strconv.FormatInt(rng.end-rng.start, 10))
		if code == http.StatusPartialContent {
			h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", rng.start, rng.end-1, c.Size()))
		}
		w.WriteHeader(code)
	}
	if r.Method == http.MethodHead {
		w.head = true
		b.begin(nil)
		return nil
	}
	if err := c.Copy(b.ctx, b, rng.start, rng.end); err != nil {
		return err
	}
	b.begin(nil) // nothing was written of the empty object
	return nil
}

// objectHeader sets what an object's answers have in common.
func objectHeader(w *response, it item, contentType string) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Accept-Ranges", "bytes")
	h.Set("Content-Security-Policy", contentPolicy)
	h.Set("Cross-Origin-Resource-Policy", "same-site")
	if base, _, _ := strings.Cut(contentType, ";"); it.download && isDocument(contentType) || base == mimePDF {
		// A sandbox keeps browsers' PDF viewers from working, so these go to disk.
		name := it.name
		if name == "" {
			name = "b3-" + it.root.Hex()[:16]
		}
		h.Set("Content-Disposition", "attachment; filename*=UTF-8''"+url.PathEscape(name))
	}
	setValidators(w, it)
}

// setValidators sets what a 304 says too.
func setValidators(w *response, it item) {
	h := w.Header()
	h.Set("ETag", etagOf(it.root))
	h.Set("Cache-Control", immutable)
	h.Set("Vary", "Accept-Encoding")
	if it.vary != "" {
		h.Add("Vary", it.vary)
	}
	if it.provable {
		h["Link"], h["Vary"] = linkToBao, bytesOrBao
	}
}

func notModified(w *response, it item) error {
	setValidators(w, it)
	w.WriteHeader(http.StatusNotModified)
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

// sniff lets the first bytes say what the content is.
func sniff(b *body, c Content) (string, error) {
	var head headBuffer
	if err := c.Copy(b.ctx, &head, 0, min(sniffLen, c.Size())); err != nil {
		return "", err
	}
	return http.DetectContentType(head), nil
}

// headBuffer keeps what is written to it.
type headBuffer []byte

func (h *headBuffer) Write(p []byte) (int, error) {
	*h = append(*h, p...)
	return len(p), nil
}

// redirect sends the client elsewhere on this listener, with its query.
func redirect(w *response, r *http.Request, code int, path string) error {
	if r.URL.RawQuery != "" {
		path += "?" + r.URL.RawQuery
	}
	h := w.Header()
	h.Set("Location", path)
	h.Set("Cache-Control", immutable)
	w.WriteHeader(code)
	return nil
}
