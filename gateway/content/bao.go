package content

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"allium/gateway/content/byterange"
	"allium/gateway/exchange"
	"allium/protocols/b3"
	"allium/protocols/bao"
	"allium/protocols/status"
)

// linkToBao is the Link header of a plain answer. It names the verified encoding, relative
// to the request's path.
var linkToBao = []string{`<?format=bao>; rel="alternate"; type="` + bao.MediaType + `"`}

// varyAccept is the Vary header of an answer that Accept can replace by the encoding.
var varyAccept = []string{"Accept"}

// The headers and answers of the verified encoding.
var (
	baoHeaders = []string{"ETag", "Cache-Control", "Vary", "Accept-Ranges", "Content-Location"}
	baoAnswers = []exchange.Reply{
		{
			Code: http.StatusOK, Payload: exchange.Payload{Media: bao.MediaType}, Headers: baoHeaders,
			Doc: "the verified encoding, of the range in the query if there is one",
		},
		{
			Code: http.StatusPartialContent, Payload: exchange.Payload{Media: bao.MediaType},
			Headers: append([]string{"Content-Range"}, baoHeaders...),
			Doc:     "the verified encoding of the range in the header Range, which counts the object's bytes",
		},
	}
)

// wantsBao reports whether the client asks for the verified encoding instead of the bytes:
// by ?format=bao, or by an Accept that names the encoding and prefers nothing else.
// negotiated is true if Accept decided.
func wantsBao(r *http.Request) (wants, negotiated bool, err error) {
	if r.URL.RawQuery != "" {
		q := r.URL.Query()
		switch f := q.Get("format"); {
		case len(q["format"]) > 1 || f != "bao" && f != "":
			return false, false, status.Errorf(status.BadRequest,
				"parameter format is %q. Set it to bao, or leave it out for the bytes",
				exchange.Clip(strings.Join(q["format"], ",")))
		case f == "bao":
			return true, false, nil
		case rangeInQuery(q) != nil:
			return false, false, status.Errorf(status.BadRequest,
				"parameter bytes needs format=bao. For a part of the bytes send the header Range")
		}
	}
	if !strings.Contains(strings.ToLower(strings.Join(r.Header["Accept"], ",")), bao.MediaType) {
		return false, false, nil // most requests, without parsing Accept
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

// baoTag returns the strong ETag of an encoding: of the range part, or of the whole object if
// part is nil. It differs from the object's ETag, because the encoding is another
// representation.
func baoTag(root b3.Root, part *byterange.Range) string {
	if part == nil {
		return `"` + root.String() + `;bao"`
	}
	return fmt.Sprintf(`"%s;bao=%d-%d"`, root, part.Start, part.End-1)
}

// rangeInQuery returns the ranges that a query asks for, nil for none. The parameter was called range once, and
// links with that name are still answered.
func rangeInQuery(q url.Values) []string {
	if ranges, ok := q["bytes"]; ok {
		return ranges
	}
	return q["range"]
}

// encoding is the verified encoding that a request selected.
type encoding struct {
	root       b3.Root
	fromHeader bool             // the range came in the header Range, not in the query
	negotiated bool             // Accept selected the encoding, not the query
	part       *byterange.Range // nil: no range was given
	rng        byterange.Range  // the object's bytes to encode, with part nil the whole object
}

// serveEncoding serves the verified encoding of an object, or of a range of the object's
// bytes (docs/http.md, "Verified bytes"). A range in the query names a representation of its
// own, which caches may store. A range in the header Range is answered with 206 and no-store,
// because a cache would take Content-Range for a range of the encoding.
func (g *Handlers) serveEncoding(b *body, r *http.Request, root b3.Root, negotiated bool) error {
	w := b.w
	inURL := rangeInQuery(r.URL.Query())
	inQuery := inURL != nil
	inHeader := !inQuery && len(r.Header["Range"]) > 0 && r.Method != http.MethodHead
	e := encoding{root: root, negotiated: negotiated}
	if !inQuery && !inHeader && exchange.KnownFresh(r, baoTag(root, nil)) {
		return e.notModified(w)
	}
	c, err := g.open(b, r, root, OpenOptions{Whole: r.Method == http.MethodGet && !inQuery && !inHeader})
	if err != nil {
		return err
	}
	defer c.Close()
	if err := e.selectRange(r, inURL, c.Size()); err != nil {
		if status.Of(err) == status.BadRange {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes */%d", c.Size()))
		}
		return err
	}
	switch exchange.Evaluate(r, baoTag(root, e.part)) {
	case status.Precondition:
		return exchange.IfMatchFailed(baoTag(root, e.part))
	case status.NotModified:
		return e.notModified(w)
	}
	length, err := bao.Len(c.Size(), b3.Range{Start: e.rng.Start, End: e.rng.End})
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
		if e.fromHeader {
			code = http.StatusPartialContent
			h.Set("Content-Range", e.rng.Of(c.Size()))
		}
		w.WriteHeader(code)
	}
	if r.Method == http.MethodHead {
		w.Head = true
		b.begin()
		return nil
	}
	return c.Encode(b.ctx, b, e.rng.Start, e.rng.End)
}

// selectRange sets e's range from the query or the header of r. The object has size bytes.
func (e *encoding) selectRange(r *http.Request, query []string, size int64) error {
	e.rng = byterange.Range{End: size}
	var text string
	switch {
	case len(query) > 1:
		return status.Errorf(status.BadRequest, "parameter bytes comes %d times. Send it once", len(query))
	case len(query) == 1:
		text = "bytes=" + query[0]
	case r.Method == http.MethodHead: // HEAD ignores the header Range (RFC 9110 §14.2)
		return nil
	default:
		text = strings.Join(r.Header.Values("Range"), ",")
	}
	parts, err := byterange.Parse(nil, text, size, 1) // an encoding has one range
	if err != nil || len(parts) == 0 {
		return err
	}
	part := &parts[0]
	if len(query) == 0 {
		if !exchange.RangeApplies(r, baoTag(e.root, part), time.Time{}) {
			return nil
		}
		e.fromHeader = true
	}
	e.part, e.rng = part, *part
	return nil
}

// validators sets the headers that a 304 answer has too.
func (e *encoding) validators(w *exchange.Response) {
	h := w.Header()
	h.Set("ETag", baoTag(e.root, e.part))
	h.Set("Accept-Ranges", "none") // the encoding's own bytes have no ranges
	h.Set("Cache-Control", exchange.Immutable)
	h.Set("Vary", "Range")
	if e.negotiated {
		h.Add("Vary", "Accept")
	}
	place := w.Prefix + "/o/" + e.root.String() + "?format=bao"
	if e.part != nil {
		place += fmt.Sprintf("&bytes=%d-%d", e.part.Start, e.part.End-1)
	}
	h.Set("Content-Location", place)
	if e.fromHeader {
		h.Set("Cache-Control", "no-store")
	}
}

func (e *encoding) notModified(w *exchange.Response) error {
	e.validators(w)
	w.WriteHeader(http.StatusNotModified)
	return nil
}
