package origin

import (
	"context"
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"

	"allium/internal/limits"
	"allium/internal/tracing"
	"allium/protocols/status"
)

// errLate is the cause that ends a try without a first byte.
var errLate = errors.New("no byte arrived in time")

// tries asks the mirrors of order in turn, at most Params.Tries times or once each, within one budget. It leaves out a
// mirror whose answer cannot become better, and pauses before it asks a mirror again.
func (c *Client) tries(ctx context.Context, r Request, order []int) (*Answer, error) {
	end := time.Now().Add(c.cfg.Params.FirstByte)
	n := len(order)
	out := make([]bool, n) // mirrors that are left out
	last, asked := (*failure)(nil), 0
	for try := 0; asked < max(c.cfg.Params.Tries, n) && try < c.cfg.Params.Tries*n; try++ {
		i := try % n
		if out[i] {
			continue
		}
		if asked > 0 {
			if try >= n && !c.pause(ctx, try/n-1, last.after, end) {
				break
			}
			c.deps.Retried()
		}
		asked++
		_, span := tracing.Child(ctx, "origin")
		a, f := c.try(ctx, r, order[i], c.share(end, try, n))
		span.EndAs(f.outcome())
		if f == nil {
			a.Asked = order[:i+1]
			return a, nil
		}
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		if last == nil || !last.failing || f.failing { // what may pass says more than what will not
			last = f
		}
		switch {
		case !f.retry && (f.said.Outcome != status.NotFound || r.Proved):
			out[i] = true
		case !f.retry:
			return nil, f
		}
	}
	if last.said.Outcome == status.Timeout {
		c.deps.TimedOut()
	}
	return nil, last
}

// share returns when a try ends: the first try at each of several mirrors leaves time for the others.
func (c *Client) share(end time.Time, try, n int) time.Time {
	if left := n - try; left > 1 {
		return time.Now().Add(time.Until(end) / time.Duration(left))
	}
	return end
}

// pause waits before try n, from 0, at a mirror that failed: Backoff · 2^n up to MaxBackoff, and up to Backoff more at
// random, or what Retry-After asks for. It returns false if the budget or ctx ends before that.
func (c *Client) pause(ctx context.Context, n int, after time.Duration, end time.Time) bool {
	p := c.cfg.Params
	wait := min(p.MaxBackoff, p.Backoff<<min(n, 16)) + rand.N(p.Backoff+1)
	wait = max(wait, after)
	return wait < time.Until(end) && limits.Sleep(ctx, wait) == nil
}

// try asks one mirror, until end for the first byte.
func (c *Client) try(ctx context.Context, r Request, mirror int, end time.Time) (*Answer, *failure) {
	ctx, cancel := context.WithCancelCause(ctx)
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { connected.Store(false) },
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	})
	late := time.AfterFunc(time.Until(end), func() { cancel(errLate) })
	a, err := c.ask(ctx, r, mirror)
	if err == nil && a.Body != nil {
		err = a.Body.begin(ctx, c, cancel, a.Size)
	}
	if !late.Stop() && err == nil { // it fired while the first byte arrived
		err = errLate
	}
	if err == nil {
		if a.Body == nil {
			cancel(nil)
		}
		return a, nil
	}
	f := c.explain(ctx, err)
	f.answered = connected.Load() && f.said.Outcome != status.Timeout
	if a != nil && a.Body != nil {
		a.Body.abandon()
	}
	cancel(err)
	return nil, f
}

// ask requests a path of a mirror and follows its redirects. The error is a failure, or one of the transport.
func (c *Client) ask(ctx context.Context, r Request, mirror int) (*Answer, error) {
	own := c.bases[mirror]
	at := join(own, r.Path)
	for hop := 0; ; hop++ {
		resp, err := c.transport.RoundTrip(c.request(ctx, at, r))
		if err != nil {
			return nil, err
		}
		if !isRedirect(resp.StatusCode) {
			a, err := c.answer(resp, r, mirror)
			if a == nil || a.Body == nil {
				_ = resp.Body.Close() // nothing of it is used
			}
			return a, err
		}
		_ = resp.Body.Close() // nothing of it is used
		if hop == maxRedirects {
			return nil, c.fail(status.NotAllowed, "redirect", "it redirects too often", nil)
		}
		if at, err = redirectTarget(resp, at, own); err != nil {
			return nil, c.fail(status.NotAllowed, "redirect", "it redirects to where a source must not lead", err)
		}
	}
}

// request returns the request for a URL. Nothing of it comes from a client but the path.
func (c *Client) request(ctx context.Context, at *url.URL, r Request) *http.Request {
	h := http.Header{"User-Agent": {c.cfg.UserAgent}, "Accept": {"*/*"}, "Accept-Encoding": {"identity"}}
	if r.ETag != "" {
		h.Set("If-None-Match", r.ETag)
	}
	if r.LastModified != "" {
		h.Set("If-Modified-Since", r.LastModified)
	}
	return (&http.Request{
		Method: http.MethodGet, URL: at, Host: at.Host, Header: h, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(ctx)
}

func isRedirect(code int) bool {
	switch code {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect,
		http.StatusPermanentRedirect:
		return true
	}
	return false
}

// explain returns err as a failure. ctx is the context of the request that failed.
func (c *Client) explain(ctx context.Context, err error) *failure {
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	var refused *rangeError
	var certificate *tls.CertificateVerificationError
	var net interface{ Timeout() bool }
	switch {
	case errors.As(err, &refused), errors.Is(err, errNoAddress):
		return c.fail(status.NotAllowed, "address", "its address is not a public one. If it is in your own network, "+
			"set private = true for the source", err)
	case errors.Is(context.Cause(ctx), errLate), errors.As(err, &net) && net.Timeout():
		f = c.fail(status.Timeout, "", "the origin did not answer in time. Try again later", err)
	case errors.As(err, &certificate):
		f = c.fail(status.Upstream, "certificate", "the certificate of the origin is not valid", err)
		f.failing = true
		return f
	default:
		f = c.fail(status.Upstream, "", "the origin cannot be reached. Try again later", err)
	}
	f.failing, f.retry = true, true
	return f
}
