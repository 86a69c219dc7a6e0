package content

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"allium/gateway/exchange"
	"allium/protocols/b3"
	"allium/protocols/bao"
	"allium/protocols/status"
)

// linkToBao says on a plain answer where the verified encoding is. The reference
// is relative to the request's own path.
var linkToBao = []string{`<?format=bao>; rel="alternate"; type="` + bao.MediaType + `"`}

// bytesOrBao is the Vary of an answer in whose place the encoding may stand.
var bytesOrBao = []string{"Accept"}

// wantsBao reports whether the client asks for the verified encoding instead of
// the bytes: by ?format=bao, or by an Accept that names it and nothing that it
// likes better. negotiated says that it was the latter.
func wantsBao(r *http.Request) (wants, negotiated bool, err error) {
	if r.URL.RawQuery != "" {
		q := r.URL.Query()
		switch f := q.Get("format"); {
		case len(q["format"]) > 1 || f != "bao" && f != "":
			return false, false, status.Errorf(status.BadRequest, "format %q is not known; write bao, or nothing for the bytes", exchange.Clip(strings.Join(q["format"], ",")))
		case f == "bao":
			return true, false, nil
		case q.Has("range"):
			return false, false, status.Errorf(status.BadRequest, "range goes with format=bao; for a part of the bytes send the header Range")
		}
	}
	if !strings.Contains(strings.ToLower(strings.Join(r.Header["Accept"], ",")), bao.MediaType) {
		return false, false, nil // most requests
	}
	named, other := 0.0, 0.0
	for t, q := range exchange.Accepted(r.Header.Values("Accept")) {
		switch t {
		case bao.MediaType:
			named = max(named, q)
		case "*/*", "application/*", "application/octet-stream":
			other = max(other, q)
		}
	}
	return named > 0 && named >= other, named > 0 && named >= other, nil
}

// baoTag is the strong validator of an encoding, which is another representation
// than the bytes: of the whole object, or of a part of it.
func baoTag(root b3.Root, part *byteRange) string {
	if part == nil {
		return `"` + root.String() + `;bao"`
	}
	return fmt.Sprintf(`"%s;bao=%d-%d"`, root, part.start, part.end-1)
}

// encoding is the selected verified encoding of an object.
type encoding struct {
	root   b3.Root
	header bool       // the range came in the header Range, not in the query
	chosen bool       // by Accept
	part   *byteRange // nil: the whole object
	rng    byteRange  // of the object's bytes
}

// encoded answers with the verified encoding of an object, or of a range of it
// (docs/http.md, "Verified bytes"). The range is one of the object's bytes. In
// the query it names a representation of its own, which caches may keep like any
// other. In the header Range it is answered with 206, and kept by nobody: a cache
// would take Content-Range for a part of the encoding.
func (g *Handlers) encoded(b *body, r *http.Request, root b3.Root, negotiated bool) error {
	w := b.w
	query := r.URL.Query()
	_, inQuery := query["range"]
	inHeader := !inQuery && len(r.Header["Range"]) > 0 && r.Method != http.MethodHead
	e := encoding{root: root, chosen: negotiated}
	if !inQuery && !inHeader && exchange.KnownFresh(r, baoTag(root, nil)) {
		return e.notModified(w)
	}
	c, err := g.open(b.ctx, w, r, root, OpenOptions{Whole: r.Method == http.MethodGet && !inQuery && !inHeader})
	if err != nil {
		return err
	}
	defer c.Close()
	if err := e.choose(r, query["range"], c.Size()); err != nil {
		if status.Of(err) == status.BadRange {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes */%d", c.Size()))
		}
		return err
	}
	switch exchange.Evaluate(r, baoTag(root, e.part)) {
	case status.Precondition:
		return status.Errorf(status.Precondition, "If-Match does not hold %s", baoTag(root, e.part))
	case status.NotModified:
		return e.notModified(w)
	}
	length, err := bao.Len(c.Size(), b3.Range{Start: e.rng.start, End: e.rng.end})
	if err != nil {
		return err
	}
	b.header = func(*body) {
		e.validators(w)
		h := w.Header()
		h.Set("Content-Type", bao.MediaType)
		h.Set("Content-Length", strconv.FormatInt(length, 10))
		h.Set("Cross-Origin-Resource-Policy", "same-site")
		code := http.StatusOK
		if e.header {
			code = http.StatusPartialContent
			h.Set("Content-Range", e.rng.of(c.Size()))
		}
		w.WriteHeader(code)
	}
	if r.Method == http.MethodHead {
		w.Head = true
		b.begin()
		return nil
	}
	return c.Encode(b.ctx, b, e.rng.start, e.rng.end)
}

// choose finds the range that is asked for of an object of size bytes.
func (e *encoding) choose(r *http.Request, query []string, size int64) error {
	e.rng = byteRange{0, size}
	var text string
	switch {
	case len(query) > 1:
		return status.Errorf(status.BadRequest, "range is given %d times; one at a time, please", len(query))
	case len(query) == 1:
		text = "bytes=" + query[0]
	case r.Method == http.MethodHead: // which has no ranges (RFC 9110 §14.2)
		return nil
	default:
		text = strings.Join(r.Header.Values("Range"), ",")
	}
	parts, err := parseRanges(nil, text, size, 1) // an encoding is of one range
	if err != nil || len(parts) == 0 {
		return err
	}
	part := &parts[0]
	if len(query) == 0 {
		if !exchange.RangeApplies(r, baoTag(e.root, part)) {
			return nil
		}
		e.header = true
	}
	e.part, e.rng = part, *part
	return nil
}

// validators sets what a 304 says too.
func (e *encoding) validators(w *exchange.Response) {
	h := w.Header()
	h.Set("ETag", baoTag(e.root, e.part))
	h.Set("Accept-Ranges", "none") // of the encoding
	h.Set("Cache-Control", exchange.Immutable)
	h.Set("Vary", "Range")
	if e.chosen {
		h.Add("Vary", "Accept")
	}
	place := "/o/" + e.root.String() + "?format=bao"
	if e.part != nil {
		place += fmt.Sprintf("&range=%d-%d", e.part.start, e.part.end-1)
	}
	h.Set("Content-Location", place)
	if e.header {
		h.Set("Cache-Control", "no-store")
	}
}

func (e *encoding) notModified(w *exchange.Response) error {
	e.validators(w)
	w.WriteHeader(http.StatusNotModified)
	return nil
}
