package weblink

import (
	"crypto/rand"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"allium/gateway/exchange"
	"allium/protocols/status"
)

// cookieName names the cookie by which a link knows a browser again.
const cookieName = "allium-link"

// newCookie returns a text that nobody can guess.
func newCookie() string { return strings.ToLower(rand.Text()) }

// isCookie reports whether a text has the form of newCookie.
func isCookie(s string) bool {
	const digits = "abcdefghijklmnopqrstuvwxyz234567"
	return len(s) == 26 && strings.Trim(s, digits) == ""
}

// claim is a download that a client has begun.
type claim struct {
	cookie string
	plain  bool         // the client sent no cookie when it began
	from   netip.Prefix // of a client without cookies, with its program
	agent  string

	users     int   // requests in progress
	delivered bool  // content was sent
	sent      int64 // bytes
	whole     bool
}

// maxAgent bounds the User-Agent that a claim keeps, in bytes.
const maxAgent = 256

// visit is one request to a link. It belongs to the goroutine of the request.
type visit struct {
	l         *link
	agent     string
	from      exchange.Origin
	cookie    string
	setCookie bool
	resumes   bool // it asks for a range that does not begin at 0
	archive   bool // it asks for an archive

	claim *claim // nil until begin, and for a link without a number of downloads
	began bool
}

func newVisit(l *link, w *exchange.Response, r *http.Request) *visit {
	v := &visit{l: l, agent: r.UserAgent(), from: w.From, resumes: rangeResumes(r.Header.Get("Range"))}
	v.agent = v.agent[:min(len(v.agent), maxAgent)]
	if l.Downloads == 0 {
		return v
	}
	if c, err := r.Cookie(cookieName); err == nil && isCookie(c.Value) {
		v.cookie = c.Value
	} else {
		v.cookie, v.setCookie = newCookie(), true
	}
	return v
}

// rangeResumes reports whether a header Range asks for bytes that do not begin at 0.
func rangeResumes(header string) bool {
	rest, ok := strings.CutPrefix(strings.ToLower(header), "bytes=")
	first, _, dash := strings.Cut(rest, "-")
	n, err := strconv.ParseUint(strings.TrimSpace(first), 10, 63)
	return ok && dash && err == nil && n > 0
}

// match returns the download that the request belongs to, or nil. The caller holds mu of the link.
func (v *visit) match() *claim {
	for _, c := range v.l.claims {
		if !v.setCookie && c.cookie == v.cookie {
			return c
		}
		if v.setCookie && v.resumes && c.plain && !c.whole && c.from == v.from.Group && c.agent == v.agent {
			return c
		}
	}
	return nil
}

// enter refuses a request for a link that has ended.
func (v *visit) enter() error {
	l := v.l
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.set.deps.Now()
	c := v.match()
	switch {
	case l.expired(now) && (c == nil || c.whole || !v.resumes): // a download that has begun may end after the link
		return errExpired()
	case l.over:
		return errOver()
	case c == nil && l.Downloads > 0 && len(l.claims) >= l.Downloads:
		return errUsedUp()
	}
	return nil
}

// begin counts the request as a download before the first byte of content, unless it is a part of one.
func (v *visit) begin() error {
	if v.began {
		return nil
	}
	l := v.l
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return errOver()
	}
	if l.Downloads > 0 {
		c := v.match()
		if c == nil {
			if len(l.claims) >= l.Downloads {
				return errUsedUp()
			}
			c = &claim{cookie: v.cookie, plain: v.setCookie, from: v.from.Group, agent: v.agent}
			l.claims = append(l.claims, c)
			l.set.downloads.Inc()
			l.tell(Event{From: v.from.Addr.String(), Count: len(l.claims)})
		}
		c.users++
		v.claim = c
	} else if !v.resumes {
		l.set.downloads.Inc()
	}
	v.began = true
	l.users++
	return nil
}

// finish notes what was sent. A download without a sent byte does not count.
func (v *visit) finish(w *exchange.Response, err error) {
	if !v.began {
		return
	}
	l := v.l
	delivered := w.Status == http.StatusOK || w.Status == http.StatusPartialContent
	ended := delivered && err == nil && !w.Short()
	last := ended && l.File && atEnd(w, l.Size)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.users--
	defer l.wake()
	whole := ended && w.Status == http.StatusOK && (l.File || v.archive)
	if c := v.claim; c != nil {
		c.users--
		c.delivered = c.delivered || delivered
		c.sent += w.Bytes
		whole = !c.whole && (whole || last && c.sent >= l.Size)
		c.whole = c.whole || whole
		if c.users == 0 && !c.delivered {
			l.forget(c)
		}
	}
	if whole {
		l.tell(Event{From: v.from.Addr.String(), Whole: true, Count: len(l.claims)})
	}
}

// forget removes a claim. The caller holds mu.
func (l *link) forget(c *claim) {
	l.claims = slices.DeleteFunc(l.claims, func(have *claim) bool { return have == c })
}

// atEnd reports whether an answer has the last bytes of a file.
func atEnd(w *exchange.Response, size int64) bool {
	last := "-" + strconv.FormatInt(size-1, 10) + "/" + strconv.FormatInt(size, 10)
	return w.Status == http.StatusOK || strings.HasSuffix(w.Header().Get("Content-Range"), last)
}

// errGuessed returns the answer to a secret that is that of no link.
func errGuessed() error {
	return status.Errorf(status.NotFound, "There is no such link. Check that all of it was copied, or ask whoever "+
		"sent it.")
}
