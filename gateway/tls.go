package gateway

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/acme"

	"allium/protocols/status"
)

// certificates are what the public listener proves itself with. Methods may be
// called from any goroutine; all but run are cheap and do no I/O.
type certificates interface {
	// get is tls.Config.GetCertificate.
	get(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// covers reports whether a host name or address is one of the listener's.
	covers(host string) bool
	// name is how the listener is called, empty where no certificate says so.
	name() string
	// ok returns nil while there is a certificate that holds for every name.
	ok() error
	// run keeps the certificates up to date until ctx is done.
	run(ctx context.Context)
}

// newCertificates returns what cfg asks for, nil for http. Files are read here
// for the first time.
func newCertificates(cfg TLSConfig, acmeDir string, log *slog.Logger, m *metrics) (certificates, error) {
	switch {
	case len(cfg.ACMEDomains) > 0:
		return newACMECerts(cfg, acmeDir, log, m)
	case cfg.Enabled():
		return newCertFiles(cfg, log, m)
	default:
		return nil, nil
	}
}

// CheckFiles reads the files that the configuration names as [New] does. Its
// error is what New would return.
func (c TLSConfig) CheckFiles() error {
	_, err := newCertificates(c, "", slog.New(slog.DiscardHandler), newMetrics(nil))
	return err
}

// tlsConfig is TLS 1.2 and later with the suites that Go ranks; the server adds
// what it speaks to NextProtos.
func tlsConfig(certs certificates, m *metrics) *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: certs.get,
		NextProtos:     []string{"h2", "http/1.1", acme.ALPNProto},
		VerifyConnection: func(tls.ConnectionState) error { // the last step of a handshake
			m.handshakes.WithLabelValues("ok").Inc()
			return nil
		},
	}
}

// handshakeFailed counts a connection that ends without having shaken hands.
func (g *Gateway) handshakeFailed(c net.Conn) {
	t, ok := c.(*tls.Conn)
	if !ok || t.ConnectionState().HandshakeComplete {
		return
	}
	result := "failed"
	if inner, ok := t.NetConn().(*conn); ok && inner.late.Load() {
		result = "timeout"
	}
	g.m.handshakes.WithLabelValues(result).Inc()
}

// hsts is the value of Strict-Transport-Security, empty for none.
func (c TLSConfig) hsts() string {
	if !c.Enabled() || c.HSTS < time.Second {
		return ""
	}
	v := "max-age=" + strconv.FormatInt(int64(c.HSTS/time.Second), 10)
	if c.HSTSSubdomains {
		v += "; includeSubDomains"
	}
	return v
}

// secureURLs are where others find the listener at a, by the name that its
// certificate proves, and where it is on this machine, which that name need not
// lead to. Without a name they are one, and local is empty.
func secureURLs(certs certificates, a net.Addr) (named, local string) {
	local = strings.Replace(baseURL(a), "http://", "https://", 1)
	name := certs.name()
	if name == "" {
		return local, ""
	}
	return "https://" + hostPort(name, portOf(a)), local
}

// hostPort is the authority of an https URL.
func hostPort(host string, port int) string {
	switch {
	case port != 443:
		return net.JoinHostPort(host, strconv.Itoa(port))
	case strings.Contains(host, ":"):
		return "[" + host + "]"
	default:
		return host
	}
}

func portOf(a net.Addr) int {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.Port
	}
	return 443
}

// CertificateError returns nil while the public listener can prove every name
// of its own, and always without TLS; otherwise what is wrong and what to do.
// It does no I/O.
func (g *Gateway) CertificateError() error {
	if g.certs == nil {
		return nil
	}
	return g.certs.ok()
}

// CertificateReload reads the files of the public listener's certificate again
// while Run runs: what cannot be used leaves the one that is in use, and is the
// error. It is nil where there are no such files.
func (g *Gateway) CertificateReload() func(context.Context) error {
	if f, ok := g.certs.(*certFiles); ok {
		return f.files.Reload
	}
	return nil
}

// inTime refuses a certificate that is not good at a time.
func inTime(leaf *x509.Certificate, now time.Time) error {
	switch {
	case now.Before(leaf.NotBefore):
		return status.Errorf(status.NotReady, "the certificate holds from %s on; see whether the clock is right", leaf.NotBefore.UTC().Format(time.RFC3339))
	case now.After(leaf.NotAfter):
		return status.Errorf(status.NotReady, "the certificate ended at %s; renew it", leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return nil
}

// checkChain refuses certificates that do not lead from one to the next.
func checkChain(der [][]byte) error {
	var prev *x509.Certificate
	for i, raw := range der {
		c, err := x509.ParseCertificate(raw)
		if err != nil {
			return err
		}
		if prev != nil {
			if err := prev.CheckSignatureFrom(c); err != nil {
				return status.Errorf(status.BadRequest, "certificate %d is not signed by the one after it, %q; put the node's own first, then each signer: %w", i, c.Subject, err)
			}
		}
		prev = c
	}
	return nil
}

var errNoCertificate = errors.New("there is no certificate for this name")

// protocols are the versions of HTTP that a side speaks: HTTP/2 over TLS, or
// without where a proxy is told to.
func (s *side) protocols() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetHTTP2(s.tls != nil)
	p.SetUnencryptedHTTP2(s.h2c)
	return p
}

// h2Streams is how many requests one HTTP/2 connection may have in flight.
const h2Streams = 100

// http2Config bounds what one HTTP/2 connection may hold: 100 streams, frames of
// 16 KiB, 256 KiB of a body that nobody reads and 1 MiB of all of them, tables of
// 4 KiB. One that takes nothing for write_timeout, or answers no ping, is
// closed.
func (g *Gateway) http2Config() *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxConcurrentStreams: h2Streams,
		MaxReadFrameSize:     16 << 10, MaxDecoderHeaderTableSize: 4 << 10, MaxEncoderHeaderTableSize: 4 << 10,
		MaxReceiveBufferPerStream: 256 << 10, MaxReceiveBufferPerConnection: 1 << 20,
		SendPingTimeout: g.cfg.IdleTimeout / 2, PingTimeout: g.cfg.HeaderTimeout, WriteByteTimeout: g.cfg.WriteTimeout,
		CountError: func(kind string) { g.m.http2Errors.WithLabelValues(kind).Inc() },
	}
}
