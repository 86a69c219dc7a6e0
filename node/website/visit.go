package website

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"allium/internal/printable"
	"allium/node/doctor"
	"allium/protocols/b3"
)

// soonExpired is the rest of its life from which on a certificate is reported: 15 hundredths of it, and at most this.
const soonExpired = 14 * 24 * time.Hour

// maxSaid bounds what is shown of an answer from outside, in bytes.
const maxSaid = 200

// printed returns the first part of an error's message as it may be shown on a terminal.
func printed(err error) string { return printable.Name(clip(doctor.Reason(err))) }

func clip(s string) string { return s[:min(len(s), maxSaid)] }

// certificate looks at the certificate that each address shows for the domain, and tells of the worst.
func (e *exam) certificate(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, tlsWait)
	defer cancel()
	all := make([]doctor.Finding, len(e.reachable))
	var handshakes sync.WaitGroup
	for i, ip := range e.reachable {
		handshakes.Go(func() { all[i] = e.certificateAt(ctx, ip) })
	}
	handshakes.Wait()
	worst := all[0]
	for _, f := range all {
		if f.Severity.Worse(worst.Severity) {
			worst = f
		}
	}
	e.steps[StepCertificate] = worst
}

// handshake speaks TLS with an address, whatever its certificate is.
func (e *exam) handshake(ctx context.Context, ip netip.Addr) (*tls.Conn, error) {
	conn, err := e.Dial(ctx, "tcp", e.at(ip))
	if err != nil {
		return nil, err
	}
	c := tls.Client(conn, &tls.Config{
		ServerName: e.Domain, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		InsecureSkipVerify: true, // the diagnosis checks the certificate itself
	})
	if err := c.HandshakeContext(ctx); err != nil {
		_ = conn.Close() // the handshake failed
		return nil, err
	}
	return c, nil
}

// certificateAt judges the certificate of one address.
func (e *exam) certificateAt(ctx context.Context, ip netip.Addr) doctor.Finding {
	const impact = "browsers refuse the website"
	fail := func(fix, format string, args ...any) doctor.Finding {
		return found(StepCertificate, doctor.Error, impact, fix, "%s %s", ip, fmt.Sprintf(format, args...))
	}
	const order = "order one: gateway.tls.acme_domains or gateway.tls.acme_on_demand; docs/running/https.md says how"
	c, err := e.handshake(ctx, ip)
	var on *net.OpError
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &record):
		return fail("set gateway.tls there, or another port with --port", "does not speak TLS at port %d", e.Port)
	case errors.As(err, &on) && on.Op == "remote error": // an alert
		return fail(order+"; with a certificate on demand, ask again in a minute", "shows no certificate for %s (%s)",
			e.Domain, on.Err)
	case err != nil:
		return fail("look at the log of the node", "ends the TLS handshake: %s", dialOrSaid(err))
	}
	chain := c.ConnectionState().PeerCertificates
	_ = c.Close() // only its certificate was wanted
	leaf, signers := chain[0], x509.NewCertPool()
	for _, s := range chain[1:] {
		signers.AddCert(s)
	}
	now := e.Now()
	left := leaf.NotAfter.Sub(now).Round(time.Minute)
	if err := leaf.VerifyHostname(e.Domain); err != nil {
		return fail(order, "shows a certificate of another host: %s", clip(strings.Join(hostsOf(leaf), ", ")))
	}
	switch {
	case left <= 0:
		return fail("look at the log of the node for why it was not renewed", "shows a certificate that ended at %s",
			leaf.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(leaf.NotBefore):
		return fail("set the clock of this machine, or wait", "shows a certificate that begins at %s",
			leaf.NotBefore.UTC().Format(time.RFC3339))
	}
	_, err = leaf.Verify(x509.VerifyOptions{
		Roots: e.Roots, Intermediates: signers, DNSName: e.Domain, CurrentTime: now,
	})
	switch life := leaf.NotAfter.Sub(leaf.NotBefore); {
	case err != nil:
		return fail("use a certificate of a public authority, with its chain; "+order,
			"shows a certificate that no known authority has signed: %s", printed(err))
	case left < min(soonExpired, life*15/100):
		return found(StepCertificate, doctor.Warning, "soon "+impact,
			"look at the log of the node for why it is not renewed",
			"the certificate of %s ends in %s", e.Domain, left)
	}
	return found(StepCertificate, doctor.OK, "", "", "valid for %s until %s, signed by %s", e.Domain,
		leaf.NotAfter.UTC().Format(time.RFC3339), printable.Name(clip(leaf.Issuer.String())))
}

// hostsOf returns the host names and addresses of a certificate.
func hostsOf(leaf *x509.Certificate) (all []string) {
	for _, n := range leaf.DNSNames {
		all = append(all, printable.Name(n))
	}
	for _, ip := range leaf.IPAddresses {
		all = append(all, ip.String())
	}
	return all
}

// dialOrSaid says why a connection failed.
func dialOrSaid(err error) string {
	var on *net.OpError
	if errors.As(err, &on) || errors.Is(err, context.DeadlineExceeded) {
		return doctor.DialWords(err)
	}
	return printed(err)
}

// content asks for the page at / as a browser does, whatever the certificate is.
func (e *exam) content(ctx context.Context) {
	if len(e.reachable) == 0 {
		e.skip("no address answers", StepContent)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, contentWait)
	defer cancel()
	const impact = "visitors see an error"
	got, err := e.get(ctx)
	if err != nil {
		e.set(StepContent, doctor.Error, impact, "see the step certificate, and the log of the node", "GET / at %s: %s",
			e.at(e.reachable[0]), dialOrSaid(err))
		return
	}
	said := got.status
	if why := got.header.Get("X-Reason"); why != "" {
		said += " (" + why + ")"
	}
	said = printable.Name(clip(said))
	tag := rootOf(got.header.Get("ETag"))
	e.served = tag
	switch {
	case got.code >= 400:
		e.set(StepContent, doctor.Error, impact,
			"name the domain in gateway.sites, or set gateway.dnslink = true, and check that the node has it: "+
				"`allium stat`", "GET / is answered with %s", said)
	case got.code >= 300:
		e.ok(StepContent, "GET / leads to %s", printable.Name(clip(got.header.Get("Location"))))
	case !tag.IsZero() && !e.root.IsZero() && tag != e.root:
		e.set(StepContent, doctor.Warning, "visitors see something else than the record names",
			"publish again, wait until the record's TTL has passed, or compare gateway.sites with the record",
			"GET / gives %s, and the page of the record is %s", tag, e.root)
	case tag.IsZero() && !e.root.IsZero():
		e.set(StepContent, doctor.Warning, "visitors see a page of the gateway or of another server, not the website",
			"name the domain in gateway.sites, or set gateway.dnslink = true",
			"GET / is answered with %s, but not with %s, the page that the record names", said, e.root)
	case !tag.IsZero() && tag == e.root:
		e.ok(StepContent, "GET / gives %s, the page that the record names", tag)
	default:
		e.ok(StepContent, "GET / is answered with %s", said)
	}
}

// head is that of an answer.
type head struct {
	code   int
	status string // with the code
	header http.Header
}

// get sends GET / to the first address that answers, and returns the head of the answer.
func (e *exam) get(ctx context.Context) (h head, err error) {
	tr := &http.Transport{
		DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10,
		DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return e.handshake(ctx, e.reachable[0])
		},
	}
	url := "https://" + e.Domain + "/"
	if e.Port != 443 {
		url = fmt.Sprintf("https://%s:%d/", e.Domain, e.Port)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return h, err
	}
	req.Header.Set("User-Agent", "allium-doctor")
	resp, err := tr.RoundTrip(req)
	if err != nil {
		return h, err
	}
	defer resp.Body.Close()
	_, err = io.CopyN(io.Discard, resp.Body, 64<<10) // the first of it, to see that it comes
	if err != nil && !errors.Is(err, io.EOF) {
		return h, err
	}
	return head{resp.StatusCode, resp.Status, resp.Header}, nil
}

// rootOf returns the object of an entity tag of a gateway, or the zero root.
func rootOf(tag string) b3.Root {
	root, err := b3.Parse(strings.Trim(strings.TrimPrefix(tag, "W/"), `"`))
	if err != nil {
		return b3.Root{}
	}
	return root
}
