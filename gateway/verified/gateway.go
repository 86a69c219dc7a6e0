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

// Deadlines of a Gateway. A body that stands still for stallTimeout is cut, and so
// is one that drips: no chunk group of which was proved for proofTimeout.
const (
	connectTimeout = 5 * time.Second  // to dial, and then to shake hands
	headerTimeout  = 30 * time.Second // to the header of an answer to a request without a body
	stallTimeout   = 30 * time.Second // between two reads of a body
	proofTimeout   = 2 * time.Minute  // for 64 KiB and what proves them: some 550 bytes a second
)

// Conns is how many requests a Gateway sends at once without dialling
// anew for each.
const Conns = 16

// maxProblem bounds what is read of an error answer, or of what was stored, in bytes.
const maxProblem = 1 << 20

// maxRedirects is how often a request follows a permanent redirect.
const maxRedirects = 2

// Options modify New. The zero value is a public gateway.
type Options struct {
	Token string // capability, sent as Authorization: Bearer; empty: none
	CA    string // PEM file of a private CA; empty: the system's
}

// Gateway speaks to the public listener of a node that need not be trusted: what
// it answers is used only as far as it proves itself. It is safe for concurrent
// use.
//
// It follows no redirect but a permanent one (308) within the gateway's own
// origin, keeps no cookies, and goes through the proxy that the environment
// names (HTTPS_PROXY).
type Gateway struct {
	base  *url.URL // scheme and host alone
	token string
	http  *http.Client
	tr    *http.Transport
}

// New returns a client of the gateway at base, http(s)://host[:port].
// Nothing is dialled yet. A token goes over https, or to this machine: any other
// base is bad_request with one.
func New(base string, o Options) (*Gateway, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil ||
		strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, status.Errorf(status.BadRequest, "%q is not the address of a gateway; write https://host or http://127.0.0.1:8080", base)
	}
	if o.Token != "" && u.Scheme != "https" && !isLoopback(u.Hostname()) {
		return nil, status.Errorf(status.BadRequest, "a capability is not sent to %s in the clear; use an https address", u.Host)
	}
	if strings.ContainsFunc(o.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, status.Errorf(status.BadRequest, "the capability holds characters that no capability has; give it as `allium token mint` printed it")
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
		MaxIdleConns: Conns, MaxIdleConnsPerHost: Conns, IdleConnTimeout: 30 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
		DisableCompression:     true, // an encoding of an encoding proves nothing sooner
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

// sameOrigin follows 308 within the origin that was asked, and nothing else.
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

// do sends one request; path is absolute, with its query. length is that of
// body, −1 where it is not known. An answer below 300, and 304, is returned: the
// caller closes its body. A problem becomes the *status.Error that it describes,
// with the outcome of its status code where it names none that has that code.
// What was cut or cannot be reached is transport_down, what is no gateway's
// answer upstream.
//
// Without a body the header has to come within 30 s; with one, ctx alone bounds
// the request.
func (g *Gateway) do(ctx context.Context, method, path string, header http.Header, body io.Reader, length int64) (*http.Response, error) {
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
			cancel(status.Errorf(status.Timeout, "%s did not answer within %s; ask another gateway, or later", g.base.Host, headerTimeout))
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
		resp.Body = &endingBody{resp.Body, cancel}
		return resp, nil
	}
	defer cancel(nil)
	defer resp.Body.Close()
	if resp.StatusCode < http.StatusBadRequest {
		return nil, status.Errorf(status.Upstream, "%s sends elsewhere (%d, to %q), which is not followed; name the gateway meant", g.base.Host, resp.StatusCode, printable(resp.Header.Get("Location")))
	}
	// Whoever sends the problem slowly is not waited for.
	late := time.AfterFunc(stallTimeout, func() { cancel(nil) })
	defer late.Stop()
	return nil, g.problem(resp)
}

// endingBody ends its request's context when it is closed.
type endingBody struct {
	io.ReadCloser
	end context.CancelCauseFunc
}

func (b *endingBody) Close() error {
	err := b.ReadCloser.Close()
	b.end(nil)
	return err
}

// failure is why there was no answer, or no more of it.
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
		return status.Errorf(status.Upstream, "%s has a certificate for %s; ask it by that name: %w", g.base.Host, printable(strings.Join(name.Certificate.DNSNames, ", ")), err)
	}
	if errors.As(err, &cert) {
		return status.Errorf(status.Upstream, "%s cannot show that it is %s; if its CA is a private one, name its file: %w", g.base.Host, g.base.Hostname(), err)
	}
	return status.Errorf(status.TransportDown, "%s cannot be reached or cut its answer; try again, or ask another gateway: %w", g.base.Host, err)
}

// problem turns an error answer into an error. It comes from somebody who need
// not be trusted, so it is never an outcome that counts as success, and its text
// holds nothing that a terminal obeys.
func (g *Gateway) problem(resp *http.Response) error {
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxProblem))
	if err != nil {
		return g.failure(resp.Request.Context(), err)
	}
	outcome := status.FromCode(resp.StatusCode)
	var p api.Problem
	if t, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); t != "application/problem+json" || json.Unmarshal(raw, &p) != nil {
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

// printable is a stranger's text for people: bounded, on one line, and without
// what a terminal would obey.
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
