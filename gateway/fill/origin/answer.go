package origin

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"allium/protocols/status"
)

// Answer is the answer of an origin for a path.
type Answer struct {
	Current      bool   // the copy that the Request validates is current; there is no Body
	ETag         string // the strong entity tag; empty: there is none, or a weak one
	LastModified string // as the origin writes it, a valid date; empty: none
	Size         int64  // of the body; −1: not known
	Mirror       int    // the mirror that answered
	Asked        []int  // the mirrors that were asked before it, and it
	Caching

	Body *Body // nil if Current is true; the caller closes it
}

// Caching holds the directives of Cache-Control for a shared cache (RFC 9111 §5.2.2).
type Caching struct {
	Said bool // the answer has a Cache-Control
	// MaxAge is the time for which a cache may keep the answer: s-maxage or max-age without Age, and 0 for no-store,
	// no-cache and private.
	MaxAge time.Duration
	// Strict means that a cache must never serve the answer once it is stale: must-revalidate, proxy-revalidate,
	// s-maxage, no-cache, no-store or private.
	Strict bool
}

// answer checks the header of an answer that is no redirect.
func (c *Client) answer(resp *http.Response, r Request, mirror int) (*Answer, error) {
	if err := c.checkCode(resp, r); err != nil {
		return nil, err
	}
	h := resp.Header
	a := &Answer{Mirror: mirror, Size: resp.ContentLength, ETag: strongTag(h)}
	if at := h.Values("Last-Modified"); len(at) == 1 {
		if _, err := http.ParseTime(at[0]); err == nil {
			a.LastModified = at[0]
		}
	}
	a.Caching = caching(h)
	if resp.StatusCode == http.StatusNotModified {
		a.Current, a.Size = true, 0
		return a, nil
	}
	for _, coding := range h.Values("Content-Encoding") {
		if coding = strings.TrimSpace(coding); coding != "" && !strings.EqualFold(coding, "identity") {
			return nil, c.fail(status.Upstream, "encoded",
				"the origin compressed the answer, although the request forbids it", nil)
		}
	}
	switch {
	case a.Size > c.cfg.MaxBytes:
		return nil, c.tooLarge()
	case a.Size < 0 && resp.ProtoMajor == 1 && len(resp.TransferEncoding) == 0 && !r.Proved:
		return nil, c.fail(status.Upstream, "no_length",
			"the origin does not say how long the answer is, so a part of it would look like the whole", nil)
	}
	a.Body = newBody(resp.Body, c.cfg.MaxBytes)
	return a, nil
}

// tooLarge returns the error of a body beyond Config.MaxBytes.
func (c *Client) tooLarge() *failure {
	return c.fail(status.Upstream, "too_large", "the file has more than the "+
		strconv.FormatInt(c.cfg.MaxBytes, 10)+" bytes of edge.fill_bytes", nil)
}

// checkCode returns an error unless an answer is 200, or 304 to a request that validates a copy.
func (c *Client) checkCode(resp *http.Response, r Request) error {
	code := resp.StatusCode
	switch {
	case code == http.StatusOK, code == http.StatusNotModified && (r.ETag != "" || r.LastModified != ""):
		return nil
	case code == http.StatusNotFound, code == http.StatusGone:
		return c.fail(status.NotFound, "", "the origin does not have the file", nil)
	}
	f := c.fail(status.Upstream, "status_"+strconv.Itoa(code), "the origin answered "+strconv.Itoa(code), nil)
	f.failing = code >= 500 || code == http.StatusTooManyRequests
	if code == http.StatusServiceUnavailable || code == http.StatusGatewayTimeout {
		f.retry = true
		f.after = retryAfter(resp.Header)
	}
	return f
}

// retryAfter returns the seconds of Retry-After. A date counts as none: the clock of the origin may differ.
func retryAfter(h http.Header) time.Duration {
	n, err := strconv.ParseUint(h.Get("Retry-After"), 10, 31)
	if err != nil {
		return 0
	}
	return time.Duration(n) * time.Second
}

// strongTag returns the strong entity tag of a header, or "" if there is none of a usual length (RFC 9110 §8.8.3).
func strongTag(h http.Header) string {
	tags := h.Values("Etag")
	if len(tags) != 1 {
		return ""
	}
	tag := tags[0]
	if len(tag) < 2 || len(tag) > maxTag || tag[0] != '"' || tag[len(tag)-1] != '"' {
		return ""
	}
	for i := 1; i < len(tag)-1; i++ {
		if c := tag[i]; c <= 0x20 || c == '"' || c == 0x7f {
			return ""
		}
	}
	return tag
}

// caching returns what a header says to a shared cache. Of MaxAge, the Age is taken off.
func caching(h http.Header) (c Caching) {
	never, shared := false, false
	for _, line := range h.Values("Cache-Control") {
		for directive := range strings.SplitSeq(line, ",") {
			c.Said = true
			name, value, _ := strings.Cut(strings.TrimSpace(directive), "=")
			switch name = strings.ToLower(name); name {
			case "no-store", "no-cache", "private":
				never, c.Strict = true, true
			case "must-revalidate", "proxy-revalidate":
				c.Strict = true
			case "s-maxage", "max-age":
				n, err := strconv.ParseUint(strings.Trim(value, `"`), 10, 31)
				if err != nil {
					n = 0 // an unreadable one is stale (RFC 9111 §4.2.1)
				}
				if name == "s-maxage" || !shared {
					c.MaxAge = time.Duration(n) * time.Second
				}
				if name == "s-maxage" {
					shared, c.Strict = true, true
				}
			}
		}
	}
	if never {
		c.MaxAge = 0
	}
	if n, err := strconv.ParseUint(h.Get("Age"), 10, 31); err == nil {
		c.MaxAge = max(0, c.MaxAge-time.Duration(n)*time.Second)
	}
	return c
}
