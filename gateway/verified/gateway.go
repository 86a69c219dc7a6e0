package verified

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"
	"unicode"

	"allium/gateway/api"
	"allium/protocols/status"
)

// The timeouts of a Gateway. A body is cut if no byte arrives for stallTimeout, or if no chunk
// group is proved for proofTimeout.
const (
	connectTimeout = 5 * time.Second  // for dialing, and again for the TLS handshake
	headerTimeout  = 30 * time.Second // for the header of the answer to a request without a body
	stallTimeout   = 30 * time.Second // between two reads of a body
	proofTimeout   = 2 * time.Minute  // for 64 KiB and their proof, about 550 bytes a second
)

// MaxIdleConns is the number of idle connections that a Gateway keeps, so that as many concurrent
// requests need no new connection.
const MaxIdleConns = 16

// maxProblem bounds the body of an error, or of the answer to an upload, in bytes.
const maxProblem = 1 << 20

// maxRedirects bounds the redirects that a request follows.
const maxRedirects = 2

// Options modify New. The zero value is a public gateway.
type Options struct {
	Token string // capability, sent as Authorization: Bearer; empty: none
	CA    string // PEM file of a private CA; empty: the system's
}

// Gateway is a client of the public listener of a node that need not be trusted. It uses an answer
// only as far as the answer proves itself. It is safe for concurrent use.
//
// It follows only permanent redirects (308) within the gateway's origin, stores no cookies, and
// uses the proxy of the environment (HTTPS_PROXY).
type Gateway struct {
	base  *url.URL // scheme and host
	token string
	http  *http.Client
	tr    *http.Transport
}

// New returns a client of the gateway at base, http(s)://host[:port]. It does not connect. With a
// token, base must be https or this machine; any other base is bad_request. The caller closes
// the Gateway.
func New(base string, o Options) (*Gateway, error) {
	u, err := url.Parse(base)
	switch {
	case strings.Contains(base, "@"): // the text may have a password, and is not shown
		return nil, status.Errorf(status.BadRequest, "the address of a gateway has no user and no password; write "+
			"https://host, and give a capability as the token")
	case err == nil && strings.Trim(u.Path, "/") != "" && u.Host != "":
		return nil, status.Errorf(status.BadRequest, "the gateway %q has the path %q, and only one at the root of its "+
			"host can be asked; write %s://%s", base, u.Path, u.Scheme, u.Host)
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.RawQuery != "" ||
		u.Fragment != "":
		return nil, status.Errorf(status.BadRequest, "%q is not the address of a gateway; write https://host or "+
			"http://127.0.0.1:8080", base)
	}
	if o.Token != "" && u.Scheme != "https" && !isLoopback(u.Hostname()) {
		return nil, status.Errorf(status.BadRequest,
			"a capability is not sent to %s in the clear; use an https address",
			u.Host)
	}
	if strings.ContainsFunc(o.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, status.Errorf(status.BadRequest,
			"the capability holds characters that no capability has; give it as "+
				"`allium token mint` printed it")
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.CA != "" {
		pem, err := os.ReadFile(o.CA)
		if err != nil {
			return nil, status.Errorf(status.BadRequest, "the file of the private CA cannot be read: %w", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, status.Errorf(status.BadRequest, "%s holds no certificate in PEM form", o.CA)
		}
	}
	tr := &http.Transport{
		Proxy:           http.ProxyFromEnvironment,
		DialContext:     (&net.Dialer{Timeout: connectTimeout}).DialContext,
		TLSClientConfig: cfg, TLSHandshakeTimeout: connectTimeout, ForceAttemptHTTP2: true,
		ReadBufferSize: 64 << 10, WriteBufferSize: 64 << 10,
		MaxIdleConns: MaxIdleConns, MaxIdleConnsPerHost: MaxIdleConns, IdleConnTimeout: 30 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
		DisableCompression:     true, // a verified encoding is not compressed
	}
	return &Gateway{
		base: &url.URL{Scheme: u.Scheme, Host: u.Host}, token: o.Token, tr: tr,
		http: &http.Client{Transport: tr, CheckRedirect: sameOrigin},
	}, nil
}

// isLoopback reports whether host names this machine.
func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// sameOrigin permits a 308 redirect within the origin of the first request, and no other.
func sameOrigin(req *http.Request, via []*http.Request) error {
	from := via[0].URL
	if req.Response == nil || req.Response.StatusCode != http.StatusPermanentRedirect || len(via) > maxRedirects ||
		req.URL.Scheme != from.Scheme || req.URL.Host != from.Host {
		return http.ErrUseLastResponse
	}
	return nil
}

// Close closes idle connections. Requests in flight end by their contexts.
func (g *Gateway) Close() { g.tr.CloseIdleConnections() }

// do sends one request. path is absolute and includes the query. length is the body's length in
// bytes, −1 if unknown. do returns an answer with a status below 300, or 304; the caller closes
// its body. A problem becomes the *status.Error that it describes. If the problem names no
// outcome of its status code, the status code decides. A cut or failed connection is
// transport_down, and an answer that no gateway gives is upstream.
//
// Without a body the header must arrive within headerTimeout. With a body only ctx limits the
// request.
func (g *Gateway) do(ctx context.Context, method, path string, header http.Header, body io.Reader,
	length int64) (*http.Response, error) {
	var cancel context.CancelCauseFunc
	ctx, cancel = context.WithCancelCause(ctx)
	req, err := http.NewRequestWithContext(ctx, method, g.base.String()+path, body)
	if err != nil {
		cancel(nil)
		return nil, status.Errorf(status.BadRequest, "%s %s is no request: %w", method, path, err)
	}
	for k, v := range header {
		req.Header[k] = v
	}
	if g.token != "" {
		req.Header.Set("Authorization", "Bearer "+g.token)
	}
	if body != nil {
		req.ContentLength = length
	} else {
		late := time.AfterFunc(headerTimeout, func() {
			cancel(status.Errorf(status.Timeout,
				"%s did not answer within %s; ask another gateway, or later", g.base.Host,
				headerTimeout))
		})
		defer late.Stop()
	}
	resp, err := g.http.Do(req)
	if err != nil {
		err = g.failure(ctx, err)
		cancel(nil)
		return nil, err
	}
	if resp.StatusCode < http.StatusMultipleChoices || resp.StatusCode == http.StatusNotModified {
		resp.Body = &cancelOnClose{resp.Body, cancel}
		return resp, nil
	}
	defer cancel(nil)
	defer resp.Body.Close()
	if resp.StatusCode < http.StatusBadRequest {
		return nil, status.Errorf(status.Upstream, "%s sends elsewhere (%d, to %q), which is not followed; name the "+
			"gateway meant", g.base.Host, resp.StatusCode, printable(resp.Header.Get("Location")))
	}
	// A problem that arrives slowly is cut.
	late := time.AfterFunc(stallTimeout, func() { cancel(nil) })
	defer late.Stop()
	return nil, g.problem(resp)
}

// cancelOnClose is a body that cancels its request's context when it is closed.
type cancelOnClose struct {
	io.ReadCloser
	end context.CancelCauseFunc
}

func (b *cancelOnClose) Close() error {
	err := b.ReadCloser.Close()
	b.end(nil)
	return err
}

// failure returns the error of a request that got no answer, or whose answer was cut.
func (g *Gateway) failure(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("%s: %w", g.base.Host, cause)
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	var cert *tls.CertificateVerificationError
	if name := (x509.HostnameError{}); errors.As(err, &name) && len(name.Certificate.DNSNames) > 0 {
		return status.Errorf(status.Upstream, "%s has a certificate for %s; ask it by that name: %w", g.base.Host,
			printable(strings.Join(name.Certificate.DNSNames, ", ")), err)
	}
	if errors.As(err, &cert) {
		return status.Errorf(status.Upstream,
			"%s cannot show that it is %s; if its CA is a private one, name its file: %w",
			g.base.Host, g.base.Hostname(), err)
	}
	return status.Errorf(status.TransportDown, "%s cannot be reached or cut its answer; try again, or ask another "+
		"gateway: %w", g.base.Host, err)
}

// problem turns an error answer into an error. The gateway is not trusted, so the outcome is never
// a success, and the text has no control characters.
func (g *Gateway) problem(resp *http.Response) error {
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxProblem))
	if err != nil {
		return g.failure(resp.Request.Context(), err)
	}
	outcome := status.FromCode(resp.StatusCode)
	var p api.Problem
	if t, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); t != "application/problem+json" ||
		json.Unmarshal(raw, &p) != nil {
		if resp.Request.Method == http.MethodHead {
			p.Reason = resp.Header.Get("X-Reason")
		}
		p.Detail = ""
	}
	if o, ok := status.Parse(p.Reason); ok && o.Code() == resp.StatusCode {
		outcome = o
	}
	if outcome.Exit() == 0 {
		outcome = status.Upstream
	}
	detail := printable(p.Detail)
	if detail == "" {
		detail = "no reason given"
	}
	rep := p.Report()
	rep.Reason, rep.Message = outcome.String(), fmt.Sprintf("%s answered %d: %s", g.base.Host, resp.StatusCode, detail)
	rep.Detail, rep.Limit, rep.LookupID = printable(rep.Detail), printable(rep.Limit), printable(rep.LookupID)
	return rep.Err(resp.StatusCode)
}

// printable returns an untrusted text in at most 300 bytes, on one line and without control
// characters.
func printable(s string) string {
	const most = 300
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return strings.TrimSpace(s)
}
